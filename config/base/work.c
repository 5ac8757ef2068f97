#include "config/base/work.h"

_Thread_local struct hr_work hr_work_now;
