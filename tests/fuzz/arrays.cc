// Files of arrays and pictures, and what is compressed: each is refused, or read in memory of its size.
#include "fuzz/fuzz.h"
#include "heed/io.h"
#include "heed/view.h"
#include "io/unpacking.h"

namespace heed::fuzz {
namespace {

std::string saved(const char* name, void (*save)(const std::string& path)) {
  const Directory directory;
  save(directory.at(name));
  return read_file(directory.at(name));
}

// The sum of all bytes: reads what a tensor says is its memory.
void touch(const Tensor& tensor) {
  const Tensor t = tensor.contiguous();
  unsigned sum = 0;
  const auto* bytes = static_cast<const unsigned char*>(t.raw());
  for (int64_t i = 0; i < t.nbytes(); ++i) sum += bytes[i];
  volatile unsigned kept = sum;
  static_cast<void>(kept);
}

void run_safetensors(const std::string& bytes) {
  const SafetensorsFile file(bytes, "x.safetensors");
  for (const TensorInfo& info : file.tensors())
    if (info.dtype && info.shape.size() <= kMaxRank) touch(file.tensor(info.name));
}
std::vector<std::string> safetensors_examples() {
  return {saved("x", [](const std::string& path) {
    save_safetensors(
        path, {{"a", Tensor::zeros({2, 3})}, {"b", Tensor::zeros({5}, DType::f16)}, {"c", Tensor::zeros({0, 7})}},
        {{"format", "pt"}});
  })};
}

void run_npy(const std::string& bytes) {
  static const Directory directory;
  directory.write("x.npy", bytes);
  const NpyArray array = load_npy(directory.at("x.npy"));
  expect(static_cast<uint64_t>(array.tensor.nbytes()) <= bytes.size(), "an array is no larger than its file");
  touch(array.tensor);
}
std::vector<std::string> npy_examples() {
  const auto of = [](const char* descr, const char* order, const char* shape, size_t bytes) {
    std::string header =
        std::string("{'descr': '") + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
    header.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n' + std::string(bytes, '\0');
  };
  return {of("<f4", "False", "(2, 3)", 24), of(">f8", "True", "(3, 2)", 48), of("|b1", "False", "(5,)", 5),
          of("<i2", "False", "()", 2)};
}

void run_npz(const std::string& bytes) {
  static const Directory directory;
  directory.write("x.npz", bytes);
  uint64_t all = 0;
  for (const auto& [name, array] : load_npz(directory.at("x.npz"))) {
    all += static_cast<uint64_t>(array.tensor.nbytes());
    touch(array.tensor);
  }
  expect(all <= most_unpacked(bytes.size()), "arrays keep to the ratio");
  read_npz_info(directory.at("x.npz"));
}
std::vector<std::string> npz_examples() {
  std::vector<std::string> all;
  for (const bool compress : {false, true}) {
    const Directory directory;
    save_npz(directory.at("x"), {{"a", Tensor::zeros({2, 3})}, {"b", Tensor::zeros({300})}}, compress);
    all.push_back(read_file(directory.at("x")));
  }
  return all;
}

void run_gzip(const std::string& bytes) {
  const std::string text = gunzip(bytes, "x.gz");
  expect(text.size() <= most_unpacked(bytes.size()), "unpacked text keeps to the ratio");
}
std::vector<std::string> gzip_examples() {
  const std::string empty("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
  const std::string abc(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x4c\x4a\xe6\x02\x00\x4e\x81\x88\x47\x04\x00\x00\x00", 24);
  return {empty, abc, abc + abc + std::string(5, '\0')};
}

void run_png(const std::string& bytes) {
  static const Directory directory;
  directory.write("x.png", bytes);
  touch(read_png(directory.at("x.png")));
}
// One white pixel of 8-bit grey.
std::vector<std::string> png_examples() {
  return {
      std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
                  "\0\0\0\nIDAT\x78\x9c\x63\xf8\x0f\0\1\1\1\0\x1b\xb6\xee\x56\0\0\0\0IEND\xae\x42\x60\x82",
                  67)};
}

constexpr Format kFormats[] = {{"safetensors", run_safetensors, safetensors_examples},
                               {"npy", run_npy, npy_examples},
                               {"npz", run_npz, npz_examples},
                               {"gzip", run_gzip, gzip_examples},
                               {"png", run_png, png_examples}};

}  // namespace

std::span<const Format> array_formats() { return kFormats; }

}  // namespace heed::fuzz
