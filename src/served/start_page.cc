#include "served/start_page.h"

#include <string_view>

#include "heed/label.h"

namespace heed::inline v0 {
namespace {

constexpr std::string_view kPage = R"(<!doctype html>
<html lang="@LANGUAGE@">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:;
    base-uri 'none'; form-action 'self'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>@TITLE@</title>
<style>
:root {
  --back: #ffffff; --panel: #f6f6fa; --text: #1d1d2b; --faint: #5d5d74; --line: #d9d9e4; --accent: #3d3da8;
  --on-accent: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12121f; --panel: #1a1a2c; --text: #e8e8f0; --faint: #a3a3bd; --line: #35354f; --accent: #a9a9ff;
    --on-accent: #12121f;
  }
}
body {
  font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; max-width: 44rem; margin: 12vh auto; padding: 0 1rem;
  background: var(--back); color: var(--text);
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
p { color: var(--faint); margin: .4rem 0 1.2rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem; }
input, button { font: inherit; padding: .5rem .8rem; border: 1px solid var(--line); border-radius: 6px; }
input { flex: 1 1 20rem; min-width: 0; background: var(--panel); color: inherit; }
button {
  background: var(--accent); color: var(--on-accent); border-color: var(--accent); font-weight: 600; cursor: pointer;
}
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
</style>
</head>
<body>
<main>
<h1>@TITLE@</h1>
<p>@WORDS@</p>
<form method="get">
<input name="text" required autofocus dir="auto" autocomplete="off" aria-label="@TEXT@">
<button>@SHOW@</button>
</form>
</main>
</body>
</html>
)";

struct Words {
  std::string_view language, words, text, show;
};
constexpr Words kEnglish{"en", "Type a text and see what attends to what while the model reads it.", "Text",
                         "Show attention"};
constexpr Words kSpanish{"es", "Escriba un texto y verá a qué atiende el modelo mientras lo lee.", "Texto",
                         "Mostrar la atención"};

std::string as_html(const std::string& text) {
  std::string html;
  for (const char c : printable(text)) {
    if (c == '&' || c == '<' || c == '>' || c == '"')
      html += "&#" + std::to_string(static_cast<int>(c)) + ";";
    else
      html += c;
  }
  return html;
}

void replace_all(std::string& text, std::string_view mark, std::string_view by) {
  for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
}

}  // namespace

std::string start_page(const std::string& model, const std::string& languages) {
  const Words& words = languages.starts_with("es") ? kSpanish : kEnglish;
  std::string page(kPage);
  replace_all(page, "@LANGUAGE@", words.language);
  replace_all(page, "@WORDS@", words.words);
  replace_all(page, "@TEXT@", words.text);
  replace_all(page, "@SHOW@", words.show);
  replace_all(page, "@TITLE@", as_html(model));
  return page;
}

}  // namespace heed::inline v0
