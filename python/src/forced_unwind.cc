#include <unistd.h>
#include <unwind.h>

#include "gil.h"

/// CPython before 3.14 ends a thread by pthread_exit() if it asks for the GIL while the interpreter is ending: the
/// stack is unwound by force, through the frames of this module that have called Python. Their destructors would use
/// Python without the GIL, and a noexcept function among them would end the process.
///
/// Such a thread is blocked forever instead, before the first destructor runs. The unwinder calls the function below
/// for each C++ frame of this module: the linker puts it in the place of the compiler's (--wrap in CMakeLists.txt).

// The linker demands these names. NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" _Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                           _Unwind_Exception_Class exception_class,
                                                           _Unwind_Exception* exception, _Unwind_Context* context);

extern "C" _Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                           _Unwind_Exception_Class exception_class,
                                                           _Unwind_Exception* exception, _Unwind_Context* context) {
  if ((actions & _UA_FORCE_UNWIND) != 0 && crossdock::python::interpreter_ending()) {
    for (;;) pause();
  }
  return __real___gxx_personality_v0(version, actions, exception_class, exception, context);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
