# Reads every #include line of the tree and fails with file:line on one that the layer table does not allow.
# usage: cmake -DROOT=<source folder> -P layers.cmake
cmake_minimum_required(VERSION 3.25)

# layer (folder prefix, the longest wins) | folders of ours that it may include | outside headers that are refused (regex)
set(outside_pure "^(boost/|re2/|hs/|hs\\.h|spdlog/|sqlite3\\.h|CLI/|thread|mutex|fstream|iostream|filesystem|unistd\\.h|sys/|archive\\.h|openssl/)")
set(layers
  "parsers/base|parsers/base"
  "parsers/lines|parsers/base parsers/lines"
  "parsers/records|parsers/base parsers/lines parsers/records parsers/events/event.hpp"
  "parsers/events|parsers/base parsers/lines parsers/records parsers/events"
  "parsers/config|parsers/base parsers/lines parsers/records parsers/config"
  "parsers/snapshot|parsers/base parsers/snapshot"
  "signatures/match|parsers/base parsers/lines parsers/records parsers/events parsers/config signatures/match"
  "signatures/verdict|parsers/ signatures/match signatures/verdict"
  "signatures/memory|parsers/base parsers/config parsers/snapshot signatures/memory"
  "signatures/plan|parsers/ signatures/match/match.hpp signatures/match/signature.hpp signatures/verdict signatures/memory signatures/plan"
  "db|parsers/ signatures/match/match.hpp signatures/match/signature.hpp signatures/verdict/incident.hpp signatures/verdict/diagnosis.hpp signatures/plan/fix.hpp db/"
  "daemon|parsers/ signatures/ db/ daemon/")

set(faults 0)
set(seen 0)
foreach(entry ${layers})
  string(REPLACE "|" ";" parts "${entry}")
  list(GET parts 0 layer)
  list(GET parts 1 allowed)
  string(REPLACE " " ";" allowed "${allowed}")
  file(GLOB_RECURSE files ${ROOT}/${layer}/*.hpp ${ROOT}/${layer}/*.cpp)
  foreach(file ${files})
    math(EXPR seen "${seen} + 1")
    file(RELATIVE_PATH name ${ROOT} ${file})
    file(STRINGS ${file} lines)
    set(number 0)
    foreach(line IN LISTS lines)
      math(EXPR number "${number} + 1")
      set(fault "")
      if(line MATCHES "^ *# *include *\"([^\"]+)\"")
        set(target ${CMAKE_MATCH_1})
        set(ok FALSE)
        foreach(prefix ${allowed})
          string(FIND "${target}" "${prefix}" at)
          if(at EQUAL 0)
            set(ok TRUE)
          endif()
        endforeach()
        if(NOT ok)
          set(fault "${layer} may not include ${target}")
        endif()
      elseif(line MATCHES "^ *# *include *<([^>]+)>")
        set(target ${CMAKE_MATCH_1})
        if(layer MATCHES "^parsers" AND target MATCHES "${outside_pure}")
          set(fault "${layer} is pure and may not include <${target}>")
        elseif(layer MATCHES "^signatures" AND target MATCHES "${outside_pure}" AND NOT (layer STREQUAL "signatures/match" AND target MATCHES "^(re2/|hs/|hs\\.h)"))
          set(fault "${layer} is pure and may not include <${target}>")
        elseif(layer STREQUAL "db" AND target MATCHES "^(boost/|re2/|hs|spdlog/|CLI/|thread|archive)")
          set(fault "${layer} may not include <${target}>")
        elseif(layer STREQUAL "daemon" AND target MATCHES "^(sqlite3|re2/|hs)" AND NOT (name STREQUAL "daemon/alert/mask.cpp" AND target STREQUAL "re2/re2.h"))
          set(fault "${layer} may not include <${target}>: ask db or signatures")
        elseif(name MATCHES "\\.hpp$" AND target MATCHES "^(nlohmann/json\\.hpp|yaml-cpp/)" AND layer MATCHES "^(parsers|signatures|db)")
          set(fault "<${target}> belongs into a .cpp file")
        elseif(target MATCHES "^yaml-cpp/" AND NOT name STREQUAL "parsers/base/yaml_text.cpp")
          set(fault "yaml-cpp is wrapped by parsers/base/yaml_text")
        endif()
      endif()
      if(fault)
        math(EXPR faults "${faults} + 1")
        message("${name}:${number}: ${fault}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(seen LESS 20)
  message(FATAL_ERROR "the layer check saw only ${seen} files under ${ROOT}")
endif()
if(faults)
  message(FATAL_ERROR "${faults} include lines break the layers")
endif()
message("layers: ${seen} files checked")
