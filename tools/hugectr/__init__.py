"""What tools/hugectr_python.py is made of."""
