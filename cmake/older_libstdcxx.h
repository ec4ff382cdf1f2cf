/* Included before every source of a wheel. g++ 12's libstdc++ has a version of this function that g++ 11's lacks, and
 * still has the one before it, which does the same: by that one a wheel also runs with the library of g++ 11. */
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
