#include "heed/attention.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "heed/io.h"

namespace heed::cli {
void add_attention(CLI::App& program);

namespace {

namespace fs = std::filesystem;

class AttentionCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "heed-attention-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    before_ = fs::current_path();
    fs::current_path(root_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(root_);
  }
  /// Runs "heed attention --q q.npy --k k.npy --v v.npy ARGUMENTS"; standard output and error are kept.
  void run(const std::string& arguments) {
    CLI::App program;
    add_attention(program);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::exception_ptr thrown;
    try {
      program.parse("attention --q q.npy --k k.npy --v v.npy " + arguments);
    } catch (...) {
      thrown = std::current_exception();
    }
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    if (thrown) std::rethrow_exception(thrown);
  }
  template <class E>
  std::string error_of(const std::string& arguments) {
    const size_t files = count();
    try {
      run(arguments);
    } catch (const E& error) {
      EXPECT_EQ(count(), files) << "something was written";
      return error.what();
    }
    return "no error";
  }
  size_t count() const { return static_cast<size_t>(std::distance(fs::directory_iterator(root_), {})); }

  Tensor random(const Dims& shape, DType dtype = DType::f64) {
    std::normal_distribution<double> normal;
    Tensor t = Tensor::empty(shape, DType::f64);
    for (double& x : t.span<double>()) x = normal(generator_);
    return t.to(dtype);
  }
  void save(const Dims& q, const Dims& k, const Dims& v, DType dtype = DType::f64) {
    save_npy("q.npy", random(q, dtype));
    save_npy("k.npy", random(k, dtype));
    save_npy("v.npy", random(v, dtype));
  }
  static Tensor read(const std::string& name) { return load_npy(name).tensor; }

  fs::path root_, before_;
  std::string out_, err_;
  std::mt19937 generator_{3};
};

/// The formula for one head in double: q (Lq, D), k (Lk, D), v (Lk, Dv); visible(i, j).
template <class Visible>
std::vector<double> textbook(const Tensor& q, const Tensor& k, const Tensor& v, Visible visible) {
  std::vector<double> out;
  for (int64_t i = 0; i < q.size(0); ++i) {
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = 0; j < k.size(0); ++j) {
      double score = 0;
      for (int64_t d = 0; d < q.size(1); ++d) score += q.at<double>(i, d) * k.at<double>(j, d);
      weights.push_back(visible(i, j) ? std::exp(score / std::sqrt(static_cast<double>(q.size(1)))) : 0);
      sum += weights.back();
    }
    for (int64_t c = 0; c < v.size(1); ++c) {
      double value = 0;
      for (int64_t j = 0; j < k.size(0); ++j) value += weights[static_cast<size_t>(j)] / sum * v.at<double>(j, c);
      out.push_back(value);
    }
  }
  return out;
}

void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.numel(), static_cast<int64_t>(expected.size()));
  const Tensor wide = got.to(DType::f64);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(wide.span<double>()[i], expected[i], tolerance) << i;
}

TEST_F(AttentionCommand, TwoDimensionsAgainstTheFormula) {
  save({3, 4}, {5, 4}, {5, 2});
  run("--out o.npy");
  EXPECT_EQ(read("o.npy").shape(), (Dims{3, 2}));
  const auto all = [](int64_t, int64_t) { return true; };
  expect_near(read("o.npy"), textbook(read("q.npy"), read("k.npy"), read("v.npy"), all), 1e-12);
  EXPECT_EQ(out_ + err_, "");
  run("--causal top-left --out o.npy");
  expect_near(read("o.npy"),
              textbook(read("q.npy"), read("k.npy"), read("v.npy"), [](int64_t i, int64_t j) { return j <= i; }),
              1e-12);
  run("--causal bottom-right --out o.npy --reference");
  expect_near(read("o.npy"),
              textbook(read("q.npy"), read("k.npy"), read("v.npy"), [](int64_t i, int64_t j) { return j <= i + 2; }),
              1e-12);
}

TEST_F(AttentionCommand, EveryDtype) {
  for (const DType dtype : {DType::f16, DType::f32, DType::f64}) {
    save({2, 3, 4}, {2, 5, 4}, {2, 5, 2}, dtype);
    run("--out o.npy --weights w.npy --lse l.npy");
    EXPECT_EQ(read("o.npy").dtype(), dtype);
    EXPECT_EQ(read("w.npy").dtype(), dtype);
    EXPECT_EQ(read("l.npy").dtype(), dtype == DType::f64 ? DType::f64 : DType::f32);
    EXPECT_EQ(read("o.npy").shape(), (Dims{2, 3, 2}));
    EXPECT_EQ(read("w.npy").shape(), (Dims{2, 3, 5}));
    EXPECT_EQ(read("l.npy").shape(), (Dims{2, 3}));
    const auto all = [](int64_t, int64_t) { return true; };
    for (int64_t h = 0; h < 2; ++h)
      expect_near(read("o.npy").select(0, h).contiguous(),
                  textbook(read("q.npy").to(DType::f64).select(0, h), read("k.npy").to(DType::f64).select(0, h),
                           read("v.npy").to(DType::f64).select(0, h), all),
                  dtype == DType::f16 ? 2e-3 : 1e-6);
  }
}

TEST_F(AttentionCommand, GradientsMatchTheLibraryAndKeepShapes) {
  save({1, 4, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 6});
  save_npy("g.npy", random({1, 4, 3, 6}));
  save_npy("m.npy", random({3, 5}));
  run("--mask m.npy --scale 0.3 --grad-out g.npy --grad-q gq.npy --grad-k gk.npy --grad-v gv.npy --grad-mask gm.npy");
  AttentionOptions options{.scale = 0.3, .mask = read("m.npy"), .want_lse = true};
  const Tensor q = read("q.npy"), k = read("k.npy"), v = read("v.npy");
  const auto forward = attention(q, k, v, options);
  const auto g = attention_backward(read("g.npy"), q, k, v, forward, options, {.want_mask = true});
  for (const auto& [name, expected] :
       {std::pair("gq.npy", g.q), {"gk.npy", g.k}, {"gv.npy", g.v}, {"gm.npy", g.mask}}) {
    const Tensor got = read(name);
    ASSERT_EQ(got.shape(), expected.shape()) << name;
    for (int64_t i = 0; i < got.numel(); ++i) EXPECT_EQ(got.data<double>()[i], expected.data<double>()[i]) << name;
  }
  EXPECT_FALSE(fs::exists("o.npy"));
}

TEST_F(AttentionCommand, PackedFilesAreTheSameHeadsInAnotherOrder) {
  save({2, 4, 3, 8}, {2, 2, 5, 8}, {2, 2, 5, 6});
  save_npy("g.npy", random({2, 4, 3, 6}));
  const std::string outputs =
      "--grad-out g.npy --out o.npy --lse l.npy --weights w.npy --scores s.npy --present-key pk.npy --grad-q gq.npy "
      "--grad-k gk.npy --grad-v gv.npy";
  run(outputs);
  std::map<std::string, Tensor> expected;
  for (const char* name : {"o", "l", "w", "s", "pk", "gq", "gk", "gv"})
    expected[name] = read(std::string(name) + ".npy").clone();
  for (const char* name : {"q.npy", "k.npy", "v.npy", "g.npy"}) {
    const Tensor t = read(name).clone();
    save_npy(name, t.transpose(1, 2).reshape({t.size(0), t.size(2), t.size(1) * t.size(3)}));
  }
  run(outputs + " --q-heads 4 --kv-heads 2");
  for (const char* name : {"o", "l", "w", "s", "pk", "gq", "gk", "gv"}) {
    Tensor want = expected[name];
    if (std::string("o gq gk gv").find(name) != std::string::npos)
      want = want.transpose(1, 2).reshape({want.size(0), want.size(2), want.size(1) * want.size(3)});
    const Tensor got = read(std::string(name) + ".npy");
    ASSERT_EQ(got.shape(), want.shape()) << name;
    for (int64_t i = 0; i < got.numel(); ++i) ASSERT_EQ(got.data<double>()[i], want.data<double>()[i]) << name;
  }
}

TEST_F(AttentionCommand, APastIsKeysInFront) {
  save({1, 4, 3, 8}, {1, 2, 7, 8}, {1, 2, 7, 6});
  const Tensor k = read("k.npy").clone(), v = read("v.npy").clone();
  run("--causal bottom-right --window 3,-1 --out expected.npy");
  save_npy("pk.npy", k.slice(2, 0, 4).contiguous());
  save_npy("pv.npy", v.slice(2, 0, 4).contiguous());
  save_npy("k.npy", k.slice(2, 4, 7).contiguous());
  save_npy("v.npy", v.slice(2, 4, 7).contiguous());
  // Three new keys for three queries: both rules put the last query at the last key.
  for (const char* causal : {"--causal bottom-right", "--causal top-left", "--causal-offset 4"}) {
    run(std::string(causal) + " --window 3,-1 --past-key pk.npy --past-value pv.npy --present-key all.npy --out o.npy");
    EXPECT_EQ(read_file("o.npy"), read_file("expected.npy")) << causal;
    const Tensor all = read("all.npy");
    ASSERT_EQ(all.shape(), k.shape());
    for (int64_t i = 0; i < k.numel(); ++i) ASSERT_EQ(all.data<double>()[i], k.data<double>()[i]);
  }
}

TEST_F(AttentionCommand, StorageRoundsTheOperands) {
  save({2, 3, 8}, {2, 5, 8}, {2, 5, 6}, DType::f32);
  std::map<std::string, Tensor> rounded;
  for (const char* name : {"q.npy", "k.npy", "v.npy"})
    rounded[name] = read(name).to(DType::bf16).to(DType::f32).clone();
  run("--storage bf16 --out o.npy");
  const Tensor got = read("o.npy").clone();
  EXPECT_EQ(got.dtype(), DType::f32);
  for (const auto& [name, t] : rounded) save_npy(name, t);
  run("--storage f32 --out o.npy");
  const Tensor expected = read("o.npy");
  for (int64_t i = 0; i < got.numel(); ++i)
    EXPECT_NEAR(got.data<float>()[i], expected.data<float>()[i], std::abs(expected.data<float>()[i]) / 128) << i;
}

TEST_F(AttentionCommand, MaskOfEveryRankAndKeyLengths) {
  save({2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4});
  Tensor mask = Tensor::full({5}, 1, DType::boolean);
  mask.at<bool>(3) = mask.at<bool>(4) = false;
  save_npy("m.npy", mask);
  save_npy("n.npy", Tensor::from<int32_t>({3, 3}, {2}));
  run("--key-lengths n.npy --out expected.npy");
  for (const Dims& shape : {Dims{5}, Dims{1, 5}, Dims{1, 1, 5}, Dims{1, 1, 1, 5}}) {
    save_npy("m.npy", mask.reshape(shape));
    run("--mask m.npy --out o.npy");
    EXPECT_EQ(read_file("o.npy"), read_file("expected.npy"));
  }
  save({3, 4}, {5, 4}, {5, 4});
  save_npy("n.npy", Tensor::from<int64_t>({3}, {}));
  save_npy("m.npy", mask);
  run("--key-lengths n.npy --out expected.npy");
  run("--mask m.npy --out o.npy");
  EXPECT_EQ(read_file("o.npy"), read_file("expected.npy"));
}

TEST_F(AttentionCommand, PrintsRowsWithoutAnOutputOption) {
  save_npy("q.npy", Tensor::zeros({2, 1, 1}));
  save_npy("k.npy", Tensor::zeros({2, 2, 1}));
  save_npy("v.npy", Tensor::from<float>({1, 2, 2, 3, 1, 0.5f, 2, 1}, {2, 2, 2}));
  run("");
  EXPECT_EQ(out_, "1.5 2.5\n\n1.5 0.75\n");
  EXPECT_EQ(err_, "");
  save({40, 8}, {2, 8}, {2, 50});
  run("");
  EXPECT_NE(err_.find("prints 2000 numbers; --out"), std::string::npos) << err_;
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 40);
  save({0, 8}, {2, 8}, {2, 3});
  run("");
  EXPECT_EQ(out_, "");
}

TEST_F(AttentionCommand, DropoutFollowsTheSeed) {
  save({16, 4}, {32, 4}, {32, 4});
  run("--dropout 0.5 --seed 1 --out a.npy");
  run("--dropout 0.5 --seed 1 --out b.npy");
  run("--dropout 0.5 --seed 2 --out c.npy");
  EXPECT_EQ(read_file("a.npy"), read_file("b.npy"));
  EXPECT_NE(read_file("a.npy"), read_file("c.npy"));
}

TEST_F(AttentionCommand, WarnsOnceOfFortranOrderAndNan) {
  save({3, 2}, {4, 2}, {4, 2});
  run("--out plain.npy");
  const Tensor q = read("q.npy");
  std::string bytes = read_file("q.npy");
  bytes.replace(bytes.find("False, "), 7, "True , ");
  const Tensor columns = q.transpose(0, 1).contiguous();
  bytes.replace(bytes.size() - 48, 48, reinterpret_cast<const char*>(columns.raw()), 48);
  write_file_atomically("q.npy", bytes);
  run("--out o.npy");
  EXPECT_EQ(read_file("o.npy"), read_file("plain.npy"));
  EXPECT_NE(err_.find("q.npy is in Fortran order"), std::string::npos) << err_;
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1);

  save_npy("q.npy", q);
  const Tensor v = read("v.npy");
  v.at<double>(3, 0) = v.at<double>(3, 1) = NAN;
  save_npy("v.npy", v);
  run("--causal top-left --out o.npy");  // 3 queries: nobody sees key 3
  EXPECT_NE(err_.find("v.npy has 2 NaN"), std::string::npos) << err_;
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1);
  const Tensor o = read("o.npy");
  for (const double x : o.span<double>()) EXPECT_TRUE(std::isfinite(x));
}

TEST_F(AttentionCommand, WrongUse) {
  save({1, 4, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 8});
  save_npy("bool.npy", Tensor::full({3, 5}, 1, DType::boolean));
  save_npy("odd.npy", Tensor::zeros({4, 5}, DType::f64));
  save_npy("f32.npy", Tensor::zeros({3, 5}, DType::f32));
  save_npy("g.npy", random({1, 4, 3, 8}));
  const auto shape_error = [&](const std::string& arguments) {
    return error_of<ShapeError>(arguments + " --out o.npy");
  };
  EXPECT_NE(shape_error("--mask odd.npy").find("does not broadcast"), std::string::npos);
  EXPECT_NE(shape_error("--mask f32.npy").find("the mask is f32"), std::string::npos);
  EXPECT_NE(shape_error("--key-lengths f32.npy").find("key_lengths"), std::string::npos);
  EXPECT_NE(shape_error("--dropout 1").find("dropout"), std::string::npos);
  EXPECT_NE(shape_error("--mask bool.npy --grad-out g.npy --grad-mask gm.npy").find("boolean mask"), std::string::npos);
  EXPECT_NE(shape_error("--grad-out odd.npy --grad-q gq.npy").find("grad-out has shape"), std::string::npos);
  EXPECT_THROW(run("--grad-q gq.npy"), CLI::RequiresError);
  EXPECT_THROW(run("--grad-out g.npy --grad-mask gm.npy"), CLI::RequiresError);
  EXPECT_THROW(run("--causal upper"), CLI::ValidationError);
  EXPECT_THROW(run("--scale x"), CLI::ValidationError);

  save({1, 4, 3, 8}, {1, 3, 5, 8}, {1, 3, 5, 8});
  EXPECT_NE(shape_error("").find("not a multiple"), std::string::npos);
  save({1, 4, 3, 8}, {1, 2, 5, 7}, {1, 2, 5, 8});
  EXPECT_NE(shape_error(""), "no error");
  save_npy("k.npy", random({2, 5, 8}));
  EXPECT_NE(shape_error("").find("same number of dimensions"), std::string::npos);
  save_npy("k.npy", random({1, 2, 5, 8}, DType::f32));
  EXPECT_NE(shape_error("").find("convert one of them"), std::string::npos);
  save_npy("q.npy", Tensor::zeros({8}));
  EXPECT_NE(shape_error("").find("(L, D)"), std::string::npos);
  save_npy("q.npy", Tensor::zeros({2, 2}, DType::i64));
  EXPECT_NE(shape_error("").find("dtype i64"), std::string::npos);
}

TEST_F(AttentionCommand, FilesThatFail) {
  save({3, 2}, {4, 2}, {4, 2});
  EXPECT_NE(error_of<IoError>("--mask none.npy").find("none.npy: No such file"), std::string::npos);
  EXPECT_NE(error_of<IoError>("--out no/such/o.npy").find("No such file"), std::string::npos);
  EXPECT_NE(error_of<IoError>("--out /dev/full").find("No space left"), std::string::npos);
  const std::string whole = read_file("k.npy");
  write_file_atomically("k.npy", whole.substr(0, whole.size() - 1));
  EXPECT_NE(error_of<FormatError>("--out o.npy").find("cut short"), std::string::npos);
  const std::string object = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
  write_file_atomically("k.npy", std::string("\x93NUMPY\1\0", 8) + static_cast<char>(object.size()) + '\0' + object);
  EXPECT_NE(error_of<FormatError>("--out o.npy").find("Python objects"), std::string::npos);
}

}  // namespace
}  // namespace heed::cli
