# triage_embed_page(TARGET SYMBOL NAMESPACE FOLDER): builds the page of FOLDER with Node.js and compiles the files into TARGET, as triage_embed does.
# Without Node.js, or when its packages are neither there nor can be had, the function lists no file: the service then has no page.
# The packages are those of package-lock.json; only what the build needs is installed here, tests install the rest.
function(triage_embed_page target symbol namespace folder)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}_embedded.cpp)
  set(built ${CMAKE_CURRENT_BINARY_DIR}/${symbol}_built)
  find_program(NODE_PROGRAM node)
  find_program(NPM_PROGRAM npm)
  mark_as_advanced(NODE_PROGRAM NPM_PROGRAM)
  file(RELATIVE_PATH where ${CMAKE_SOURCE_DIR} ${source})
  set(why "")
  if(NOT WEB)
    set(why "WEB is off")
  elseif(NOT NODE_PROGRAM)
    set(why "there is no Node.js")
  elseif(NOT EXISTS ${source}/node_modules/esbuild/package.json)
    set(why "its packages are not there: npm ci in ${where}")
    if(NPM_PROGRAM)
      execute_process(COMMAND ${NPM_PROGRAM} ci --omit=dev --prefer-offline --fetch-retries=1 WORKING_DIRECTORY ${source}
                      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET TIMEOUT 120)
      if(status EQUAL 0)
        set(why "")
      endif()
    endif()
  endif()
  if(why)
    message(STATUS "the service is built without its page: ${why}")
    file(MAKE_DIRECTORY ${built}_none)
    add_custom_command(
      OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DROOT=${built}_none -DSYMBOL=${symbol} -DNAMESPACE=${namespace} -P ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_script.cmake
      DEPENDS ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_script.cmake VERBATIM)
  else()
    file(GLOB inputs CONFIGURE_DEPENDS ${source}/src/*)
    add_custom_command(
      OUTPUT ${out}
      COMMAND ${NODE_PROGRAM} ${source}/build.mjs --out ${built}
      COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DROOT=${built} -DSYMBOL=${symbol} -DNAMESPACE=${namespace} -P ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_script.cmake
      DEPENDS ${inputs} ${source}/build.mjs ${source}/package-lock.json ${CMAKE_SOURCE_DIR}/deploy/cmake/embed_script.cmake
      COMMENT "building and embedding the page" VERBATIM)
  endif()
  target_sources(${target} PRIVATE ${out})
  set(TRIAGE_PAGE_WHY_NOT "${why}" CACHE INTERNAL "why the service has no page")
endfunction()
