// Compiled into wheels alone. g++ 12's libstdc++ has a version of one function that g++ 11's lacks, and still has the
// one before it, which does the same. The extension module gets a function of the same name here, which calls the older
// version: so a wheel also runs with the library of g++ 11. It isn't part of link-time optimisation, which moves symbol
// versions away from their uses.

extern "C" {
void older_wait(void* condition, void* lock);
__asm__(".symver older_wait,_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

void wait_by_older(void* condition, void* lock) __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void wait_by_older(void* condition, void* lock) { older_wait(condition, lock); }
}
