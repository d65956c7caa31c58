# cmake -D FOLDER=src/view/page -D PAGE=page -D STYLES=a.css,b.css -D SCRIPTS=a.js,b.js -D OUT=page_source.cc -P HeedPage.cmake
# makes one document of page.html, the beginning that all pages share (head.html), the styles and the scripts, in the order given, and a C++ source of the document, the
# function page_source(). The document carries the SHA-256 of its style and script, so that a browser runs these and
# nothing else.

function(base64_of_hex hex out)  # of 32 bytes
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}00" ${at} 6 three)
    math(EXPR bits "0x${three}")
    foreach(shift 18 12 6 0)
      math(EXPR digit "(${bits} >> ${shift}) & 63")
      string(SUBSTRING "${digits}" ${digit} 1 character)
      string(APPEND text "${character}")
    endforeach()
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)  # 256 bits; the last digit belongs to the padding
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

function(joined names out)
  string(REPLACE "," ";" names "${names}")
  set(all "\n")
  foreach(name IN LISTS names)
    file(READ "${FOLDER}/${name}" text)
    string(REGEX REPLACE "\n +" "\n" text "${text}")  # indentation is an eighth of a script
    string(REGEX REPLACE "\n//[^\n]*" "" text "${text}")  # comments of whole lines
    string(APPEND all "${text}")
  endforeach()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

joined("${SCRIPTS}" script)
joined("${STYLES}" style)
file(READ "${FOLDER}/${PAGE}.html" page)
file(READ "${FOLDER}/head.html" head)
string(REPLACE "@HEAD@" "${head}" page "${page}")
string(SHA256 style_hash "${style}")
string(SHA256 script_hash "${script}")
base64_of_hex("${style_hash}" style_hash)
base64_of_hex("${script_hash}" script_hash)
if(script MATCHES "</script|<!--" OR style MATCHES "</style")
  message(FATAL_ERROR "the page's script or style would end its own element")
endif()
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")

file(WRITE "${OUT}" "#include \"view/page_source.h\"\n\nnamespace heed::inline v0 {\n\n"
  "std::string_view ${PAGE}_source() {\n  return R\"page~(${page})page~\";\n}\n\n}  // namespace heed::inline v0\n")
