"""What Classifier and Regressor take from scikit-learn, where that is not installed: parameters by name, scores, errors."""
import inspect


class NotFittedError(ValueError, AttributeError):
    pass


class DataConversionWarning(UserWarning):
    pass


class BaseEstimator:
    def get_params(self, deep=True):
        """{name: value} of the constructor's parameters."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params):
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"set_params: expected one of {', '.join(known)}, found {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self):
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name].default]
        return f"{type(self).__name__}({', '.join(changed)})"


class ClassifierMixin:
    def score(self, X, y):
        """The share of rows whose class predict() finds."""
        found = self.predict(X)
        return sum(a == b for a, b in zip(found.tolist(), list(y))) / len(found)


class RegressorMixin:
    def score(self, X, y):
        """R²: 1 minus the mean squared error of predict() over that of the mean of y."""
        y = [float(value) for value in y]
        found, mean = self.predict(X).tolist(), sum(y) / len(y)
        errors, spread = sum((a - b) ** 2 for a, b in zip(found, y)), sum((value - mean) ** 2 for value in y)
        return 1 - errors / spread if spread else float(errors == 0)
