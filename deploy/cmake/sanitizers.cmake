# triage_sanitize(NAME): adds what -DSANITIZE=address|thread and -DFUZZ=ON ask for.
function(triage_sanitize name)
  # g++ 12 sees uninitialized members of std::variant where the instrumentation hides the assignment.
  set(quiet $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(SANITIZE STREQUAL "address")
    target_compile_options(${name} PRIVATE ${quiet} -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
    target_link_options(${name} PUBLIC -fsanitize=address,undefined)
  elseif(SANITIZE STREQUAL "thread")
    # Boost.Asio's fences are not instrumented, and g++ says so.
    target_compile_options(${name} PRIVATE ${quiet} $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan> -fsanitize=thread -fno-omit-frame-pointer -g)
    target_link_options(${name} PUBLIC -fsanitize=thread)
  elseif(NOT SANITIZE STREQUAL "")
    message(FATAL_ERROR "SANITIZE is '${SANITIZE}': say address, thread or nothing")
  endif()
  if(FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
