# triage_target(NAME): the warnings, include root and sanitizer flags of every target of ours.
function(triage_target name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports std::string operations that cannot overlap (GCC bug 105651).
    target_compile_options(${name} PRIVATE -Wno-restrict)
  endif()
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  triage_sanitize(${name})
endfunction()
