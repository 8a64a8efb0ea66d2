# triage_embed(TARGET SYMBOL NAMESPACE FILES...): compiles the files into TARGET as
#   std::span<const triage::parsers::EmbeddedFile> NAMESPACE::SYMBOL();
# with each file's path relative to the calling folder. The function is declared by the header that uses it.
function(triage_embed target symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}_embedded.cpp)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${symbol}_files.txt)
  string(REPLACE ";" "\n" lines "${ARGN}")
  file(CONFIGURE OUTPUT ${list} CONTENT "${lines}\n")
  set(inputs)
  foreach(f ${ARGN})
    list(APPEND inputs ${CMAKE_CURRENT_SOURCE_DIR}/${f})
  endforeach()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DLIST=${list} -DROOT=${CMAKE_CURRENT_SOURCE_DIR}
            -DSYMBOL=${symbol} -DNAMESPACE=${namespace} -P ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_script.cmake
    DEPENDS ${inputs} ${list} ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_script.cmake
    COMMENT "embedding ${symbol}" VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
