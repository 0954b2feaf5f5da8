#pragma once

#include "hugectr_lite/core/interrupt.h"
