#include "mxnet/base.h"
