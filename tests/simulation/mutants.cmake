# Mutants: deliberate bugs, to see that the simulator finds them. The shipped sources have no hooks for it: a copy of one
# is changed at configure time, and linked in its place. Each file of mutants/ is a bug: a line of what it is, the source
# in src/dissociated, the number of worlds within which it must be found, and changes of texts that must stand in that
# source exactly once. One that doesn't ends the configuration: a mutant can't rot away unseen.
add_library(mutant_main OBJECT find_mutant.cc)
target_link_libraries(mutant_main PRIVATE simulation)
crossdock_compile_options(mutant_main)

# Cuts what stands between the first `begin` and the `end` after it out of the variable `text`, and into `out`.
macro(take_between text begin end out)
  string(FIND "${${text}}" "${begin}" at)
  string(LENGTH "${begin}" length)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${${text}}" ${at} -1 ${text})
  string(FIND "${${text}}" "${end}" at)
  string(SUBSTRING "${${text}}" 0 ${at} ${out})
  string(SUBSTRING "${${text}}" ${at} -1 ${text})
endmacro()

function(add_mutant name)
  set(description ${CMAKE_CURRENT_SOURCE_DIR}/mutants/${name}.txt)
  file(READ ${description} text)
  take_between(text "source: " "\n" file)
  take_between(text "within: " " worlds" worlds)
  set(original ${PROJECT_SOURCE_DIR}/src/dissociated/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original} ${description})
  file(READ ${original} source)
  set(more 0)
  while(NOT more EQUAL -1)
    take_between(text "--- old\n" "--- new\n" old)
    take_between(text "--- new\n" "--- end\n" new)
    string(FIND "${source}" "${old}" first)
    string(FIND "${source}" "${old}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
      message(FATAL_ERROR "mutants/${name}.txt changes a text that doesn't stand in ${file} exactly once: the source has "
                          "changed, so change tests/simulation/mutants/${name}.txt with it. The text:\n${old}")
    endif()
    string(REPLACE "${old}" "${new}" source "${source}")
    string(FIND "${text}" "--- old\n" more)
  endwhile()
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/${file})
  file(CONFIGURE OUTPUT ${changed} CONTENT "${source}" @ONLY)

  add_executable(mutant_${name} ${changed} $<TARGET_OBJECTS:mutant_main> $<TARGET_OBJECTS:simulation>)
  # The objects come before the library, whose own version of that source is then not taken.
  target_link_libraries(mutant_${name} PRIVATE crossdock_dissociated)
  crossdock_compile_options(mutant_${name})
  target_compile_options(mutant_${name} PRIVATE -O0 -g0 -w)
  add_test(NAME simulation.finds_${name} COMMAND mutant_${name} ${worlds})
  set_tests_properties(simulation.finds_${name} PROPERTIES TIMEOUT 120)
endfunction()

file(GLOB mutants RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/mutants CONFIGURE_DEPENDS mutants/*.txt)
foreach(bug IN LISTS mutants)
  string(REPLACE ".txt" "" bug "${bug}")
  add_mutant(${bug})
endforeach()
