#ifndef MSHADOW_BASE_H_
#define MSHADOW_BASE_H_
#include "tensor.h"
#endif
