#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "jinja/lexer.h"
#include "jinja/names.h"

namespace heed::inline v0::jinja {
namespace {

using Kind = Node::Kind;
using Word = Token::Kind;

// Bounds of nesting. With them, neither the parser nor a run needs much of the stack.
constexpr int kDeepest = 60;             // brackets and statements
constexpr int kDeepestExpression = 100;  // operations

constexpr size_t kMostArguments = 64;

// Jinja refuses a program with another filter or test, even where no run reaches it.
constexpr std::string_view kFilters =
    " abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape format "
    "groupby indent int items join last length list lower map max min pprint random reject rejectattr replace reverse "
    "round safe select selectattr slice sort string striptags sum title tojson trim truncate unique upper urlencode "
    "urlize wordcount wordwrap xmlattr ";
constexpr std::string_view kTests =
    " boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in integer "
    "iterable le lessthan lower lt mapping ne none number odd sameas sequence string test true undefined upper ";

bool is_listed(std::string_view names, const std::string& name) { return names.find(" " + name + " ") != names.npos; }

Node node(Kind kind, std::vector<Node> parts, std::vector<std::string> names = {}) {
  Node all{.kind = kind, .names = std::move(names), .parts = std::move(parts)};
  for (const Node& part : all.parts) all.depth = std::max(all.depth, part.depth + 1);
  if (all.depth > kDeepestExpression)
    throw ProgramError("more than " + std::to_string(kDeepestExpression) + " operations within each other");
  return all;
}
// Computes the depth of a node again, after parts were added.
Node node_with(Node all) {
  Node counted = node(all.kind, std::move(all.parts), std::move(all.names));
  counted.named = std::move(all.named);
  for (const auto& [name, part] : counted.named) counted.depth = std::max(counted.depth, part.depth + 1);
  return counted;
}
Node literal(Value value) { return {.kind = Kind::literal, .value = std::move(value)}; }

class Parser {
 public:
  Parser(std::string_view source, std::span<const std::string> given) : tokens_(tokens_of(source)), scopes_(given) {}

  std::vector<Node> run() {
    std::vector<Node> all = statements({});
    if (here().kind != Word::end) fail("'" + here().text + "' without its beginning");
    return all;
  }

 private:
  // Counts nested calls of the parser. Without a bound, a program of brackets would exhaust the stack.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser.depth_ > kDeepest)
        parser.fail("more than " + std::to_string(kDeepest) + " expressions within each other");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  const Token& here() const { return tokens_[at_]; }
  const Token& ahead(size_t count = 1) const { return tokens_[std::min(at_ + count, tokens_.size() - 1)]; }
  [[noreturn]] void fail(const std::string& what) const { fail_at(here().line, what); }

  bool is(Word kind, std::string_view text) const { return here().kind == kind && here().text == text; }
  bool is_sign(std::string_view text) const { return is(Word::sign, text); }
  bool is_name(std::string_view text) const { return is(Word::name, text); }
  bool take(Word kind, std::string_view text) {
    if (!is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool take_sign(std::string_view text) { return take(Word::sign, text); }
  bool take_name(std::string_view text) { return take(Word::name, text); }
  void expect_sign(const char* text) {
    if (!take_sign(text)) fail(std::string("'") + text + "' is missing");
  }
  void expect_end_of_block() {
    if (here().kind != Word::end_block) fail("heed does not have what follows in this statement");
    ++at_;
  }
  std::string name() {
    if (here().kind != Word::name) fail("a name is missing");
    return tokens_[at_++].text;
  }

  // ---- Statements

  // Reads statements up to the tag of one of `ends`, and stops at the first word of that tag, such as `endif`.
  std::vector<Node> statements(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(*this);
    std::vector<Node> all;
    for (;;) {
      switch (here().kind) {
        case Word::text:
          all.push_back({.kind = Kind::text, .value = tokens_[at_++].text});
          break;
        case Word::begin_output: {
          ++at_;
          Node written = expression();
          // `safe` does not change what is written. As an operand, a safe text would escape the other operand.
          if (written.kind == Kind::filter && written.names[0] == "safe" && written.parts.size() == 1 &&
              written.named.empty())
            written = Node(std::move(written.parts[0]));
          all.push_back(node(Kind::output, {std::move(written)}));
          if (here().kind != Word::end_output) fail("heed does not have what follows in this expression");
          ++at_;
          break;
        }
        case Word::begin_block: {
          ++at_;
          if (here().kind != Word::name) fail("a statement without a name");
          if (std::find(ends.begin(), ends.end(), here().text) != ends.end()) return all;
          statement(&all);
          break;
        }
        default:
          if (ends.size() > 0) fail("'" + std::string(*(ends.end() - 1)) + "' is missing");
          return all;
      }
    }
  }

  void statement(std::vector<Node>* all) {
    const std::string what = name();
    if (what == "if") {
      all->push_back(branches());
    } else if (what == "for") {
      all->push_back(loop());
    } else if (what == "set") {
      all->push_back(assignment());
    } else if (what == "macro") {
      all->push_back(macro());
    } else if (what == "generation") {
      expect_end_of_block();
      scopes_.enter();
      all->push_back({.kind = Kind::inner, .body = inner_body("endgeneration")});
    } else if (what == "break" || what == "continue") {
      if (loops_ == 0) fail("'" + what + "' outside of a loop");
      expect_end_of_block();
      all->push_back({.kind = what == "break" ? Kind::leave : Kind::next});
    } else {
      fail("heed does not have the statement '" + what + "'");
    }
  }

  // Reads statements and the tag `end`.
  std::vector<Node> body(std::string_view end) {
    std::vector<Node> all = statements({end});
    ++at_;
    expect_end_of_block();
    return all;
  }

  // A body with its own scope. `break` cannot leave it.
  std::vector<Node> inner_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    std::vector<Node> all = body(end);
    scopes_.leave();
    loops_ = loops;
    return all;
  }

  Node branches() {
    Node all{.kind = Kind::branches};
    do {
      Node branch = node(Kind::branch, {expression()});
      expect_end_of_block();
      if (all.body.empty()) scopes_.enter_branches();
      branch.body = statements({"elif", "else", "endif"});
      all.body.push_back(std::move(branch));
    } while (take_name("elif"));
    if (take_name("else")) {
      expect_end_of_block();
      all.otherwise = statements({"endif"});
    }
    scopes_.leave_branches();
    ++at_;
    expect_end_of_block();
    return all;
  }

  Node loop() {
    Node all{.kind = Kind::loop};
    const bool bracket = take_sign("(");
    do all.names.push_back(name());
    while (take_sign(","));
    if (bracket) expect_sign(")");
    if (!take_name("in")) fail("'in' is missing");
    all.parts.push_back(either());
    scopes_.enter();
    for (const std::string& target : all.names) scopes_.declare(target, here().line);
    if (take_name("if")) {
      filters_loop_ = true;
      all.parts.push_back(expression());
      filters_loop_ = false;
    }
    expect_end_of_block();
    ++loops_;
    all.body = statements({"else", "endfor"});
    --loops_;
    scopes_.renew();
    if (take_name("else")) {
      expect_end_of_block();
      all.otherwise = statements({"endfor"});
    }
    scopes_.leave();
    ++at_;
    expect_end_of_block();
    return all;
  }

  Node assignment() {
    Node set{.kind = Kind::assign, .names = {name()}};
    if (take_sign(".")) set.names.push_back(name());
    if (set.names.size() > 1) scopes_.read(set.names[0], here().line);
    if (take_sign("=")) {
      set.parts.push_back(expression());
      if (set.names.size() == 1) scopes_.set(set.names[0], here().line);
      expect_end_of_block();
      return set;
    }
    if (set.names.size() > 1) fail("heed does not have this kind of 'set'");
    set.kind = Kind::capture;
    expect_end_of_block();
    scopes_.enter();
    set.body = inner_body("endset");
    scopes_.set(set.names[0], here().line);
    return set;
  }

  Node macro() {
    if (!scopes_.is_outermost()) fail("heed does not have macros within loops and other statements");
    Node all{.kind = Kind::macro, .names = {name()}};
    scopes_.set(all.names[0], here().line);
    scopes_.enter();
    expect_sign("(");
    while (!take_sign(")")) {
      const std::string parameter = name();
      if (std::find(all.names.begin() + 1, all.names.end(), parameter) != all.names.end())
        fail("two parameters '" + parameter + "'");
      if (all.names.size() > kMostArguments) fail("more than " + std::to_string(kMostArguments) + " parameters");
      scopes_.declare(parameter, here().line);
      all.names.push_back(parameter);
      if (take_sign("="))
        all.parts.push_back(expression());
      else if (!all.parts.empty())
        fail("a parameter without a default follows one with a default");
      if (!all.parts.empty() && all.parts.back().kind != Kind::literal)
        fail("heed does not have defaults of parameters that are computed");
      if (!is_sign(")")) expect_sign(",");
    }
    expect_end_of_block();
    all.body = inner_body("endmacro");
    return all;
  }

  // ---- Expressions, from the lowest precedence

  Node expression() {
    const Deeper deeper(*this);
    Node value = either();
    while (take_name("if")) {
      std::vector<Node> parts{either(), std::move(value)};
      if (take_name("else")) parts.push_back(expression());
      value = node(Kind::conditional, std::move(parts));
    }
    return value;
  }

  Node either() {
    Node left = both();
    while (take_name("or")) left = node(Kind::either, {std::move(left), both()});
    return left;
  }

  Node both() {
    Node left = negation();
    while (take_name("and")) left = node(Kind::both, {std::move(left), negation()});
    return left;
  }

  Node negation() {
    const Deeper deeper(*this);
    return take_name("not") ? node(Kind::negation, {negation()}) : comparison();
  }

  Node comparison() {
    Node left = sum();
    bool compared = false;
    for (;; compared = true) {
      std::string sign;
      for (const char* one : {"==", "!=", ">=", "<=", ">", "<"})
        if (sign.empty() && take_sign(one)) sign = one;
      if (sign.empty() && take_name("in")) sign = "in";
      const bool without = sign.empty() && is_name("not") && ahead().kind == Word::name && ahead().text == "in";
      if (sign.empty() && !without) return left;
      if (compared) fail("heed does not have comparisons in a row, such as a < b < c");
      if (without) at_ += 2;
      left = node(Kind::operation, {std::move(left), sum()}, {without ? "in" : sign});
      if (without) left = node(Kind::negation, {std::move(left)});
    }
  }

  // Left-associative operators of one precedence. `operand` reads an operand.
  Node row_of(std::initializer_list<const char*> signs, Node (Parser::*operand)()) {
    Node left = (this->*operand)();
    for (;;) {
      const auto sign = std::find_if(signs.begin(), signs.end(), [&](const char* s) { return is_sign(s); });
      if (sign == signs.end()) return left;
      ++at_;
      left = node(Kind::operation, {std::move(left), (this->*operand)()}, {*sign});
    }
  }
  Node sum() { return row_of({"+", "-"}, &Parser::joined); }
  Node joined() { return row_of({"~"}, &Parser::product); }
  Node product() { return row_of({"*", "/", "//", "%"}, &Parser::unary); }

  Node unary() { return filtered(signed_value()); }

  Node signed_value() {
    const Deeper deeper(*this);
    if (take_sign("-")) return node(Kind::minus, {signed_value()});
    if (is_sign("+") || is_sign("**")) fail("heed does not have '" + here().text + "' here");
    return postfix(primary());
  }

  Node primary() {
    const Token& token = tokens_[at_];
    switch (token.kind) {
      case Word::string: {
        std::string text;
        while (here().kind == Word::string) text += tokens_[at_++].text;
        return literal(std::move(text));
      }
      case Word::integer:
      case Word::number:
        ++at_;
        return literal(token.value);
      case Word::name: {
        ++at_;
        const std::string& text = token.text;
        if (text == "true" || text == "True") return literal(true);
        if (text == "false" || text == "False") return literal(false);
        if (text == "none" || text == "None") return literal(nullptr);
        if (text == "loop") return part_of_loop();
        scopes_.read(text, here().line);
        return node(Kind::variable, {}, {text});
      }
      default:
        break;
    }
    if (take_sign("(")) {
      Node inside = expression();
      if (is_sign(",")) {
        std::vector<Node> items{std::move(inside)};
        while (take_sign(","))
          if (!is_sign(")")) items.push_back(expression());
        inside = node(Kind::tuple, std::move(items));
      }
      expect_sign(")");
      return inside;
    }
    if (take_sign("[")) {
      Node list{.kind = Kind::list};
      while (!take_sign("]")) {
        list.parts.push_back(expression());
        if (!is_sign("]")) expect_sign(",");
      }
      return node_with(std::move(list));
    }
    if (take_sign("{")) {
      Node dict{.kind = Kind::dict};
      while (!take_sign("}")) {
        dict.parts.push_back(expression());
        expect_sign(":");
        dict.parts.push_back(expression());
        if (!is_sign("}")) expect_sign(",");
      }
      return node_with(std::move(dict));
    }
    fail("an expression is missing");
  }

  // `loop` changes with each item, so heed does not have it as a value.
  Node part_of_loop() {
    if (filters_loop_ || !take_sign(".")) fail("heed has of 'loop' only its parts, such as loop.index");
    return node(Kind::loop_part, {}, {name()});
  }

  Node postfix(Node object) {
    for (;;) {
      if (take_sign(".")) {
        if (here().kind == Word::integer)
          object = node(Kind::item, {std::move(object), literal(tokens_[at_++].value)});
        else
          object = node(Kind::attribute, {std::move(object)}, {name()});
      } else if (take_sign("[")) {
        object = subscript(std::move(object));
      } else if (is_sign("(")) {
        object = call(std::move(object));
      } else {
        return object;
      }
    }
  }

  Node subscript(Node object) {
    std::vector<Node> parts{std::move(object)};
    bool slice = false;
    for (;;) {
      if (is_sign(":") || is_sign("]"))
        parts.push_back(literal(nullptr));
      else
        parts.push_back(expression());
      if (take_sign("]")) break;
      expect_sign(":");
      slice = true;
    }
    if (!slice && parts[1].kind == Kind::literal && parts[1].value.is_none()) fail("an index is missing");
    if (parts.size() > 4) fail("a slice of more than three parts");
    while (slice && parts.size() < 4) parts.push_back(literal(nullptr));
    return node(slice ? Kind::slice : Kind::item, std::move(parts));
  }

  void arguments(Node* to) {
    expect_sign("(");
    while (!take_sign(")")) {
      if (here().kind == Word::name && ahead().kind == Word::sign && ahead().text == "=") {
        std::string key = name();
        ++at_;
        if (std::any_of(to->named.begin(), to->named.end(), [&](const auto& known) { return known.first == key; }))
          fail("two arguments '" + key + "'");
        to->named.emplace_back(std::move(key), expression());
      } else {
        if (is_sign("*") || is_sign("**")) fail("heed does not have '" + here().text + "' before an argument");
        if (!to->named.empty()) fail("an argument without a name follows one with a name");
        to->parts.push_back(expression());
      }
      if (to->parts.size() + to->named.size() > kMostArguments)
        fail("more than " + std::to_string(kMostArguments) + " arguments");
      if (!is_sign(")")) expect_sign(",");
    }
  }

  Node call(Node function) {
    Node all = node(Kind::call, {std::move(function)});
    arguments(&all);
    return node_with(std::move(all));
  }

  Node filtered(Node input) {
    for (;;) {
      if (take_sign("|")) {
        std::string filter = name();
        if (!is_listed(kFilters, filter)) fail("there is no filter '" + filter + "'");
        input = node(Kind::filter, {std::move(input)}, {std::move(filter)});
        if (is_sign("(")) arguments(&input);
        input = node_with(std::move(input));
      } else if (take_name("is")) {
        input = test(std::move(input));
      } else if (is_sign("(")) {
        input = call(std::move(input));
      } else {
        return input;
      }
    }
  }

  Node test(Node input) {
    const bool negated = take_name("not");
    std::string what = name();
    if (!is_listed(kTests, what)) fail("there is no test '" + what + "'");
    if (is_name("is")) fail("a test of a test");
    Node all = node(Kind::test, {std::move(input)}, {std::move(what)});
    constexpr std::array<std::string_view, 3> kNext{"else", "or", "and"};
    const Word kind = here().kind;
    if (is_sign("("))
      arguments(&all);
    else if (kind == Word::string || kind == Word::integer || kind == Word::number || is_sign("[") || is_sign("{") ||
             (kind == Word::name && std::find(kNext.begin(), kNext.end(), here().text) == kNext.end()))
      all.parts.push_back(postfix(primary()));
    all = node_with(std::move(all));
    return negated ? node(Kind::negation, {std::move(all)}) : all;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;              // open loops in the current body
  bool filters_loop_ = false;  // in the `if` of a loop's first tag
  NameScopes scopes_;
};

}  // namespace

std::vector<Node> parse(std::string_view source, std::span<const std::string> given) {
  return Parser(source, given).run();
}

}  // namespace heed::inline v0::jinja
