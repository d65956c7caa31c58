#include <gtest/gtest.h>

#include <set>

#include "heed/text.h"

namespace heed {
namespace {

TEST(MadeUpNames, StandWhereTheWordStoodOnBothSides) {
  TextPairs pairs{.source = {"Tom y Tom leen.", "Llamo a Tom.", "Tomó agua con Tomás."},
                  .target = {"Tom and Tom read.", "I call him.", "He drank water with Tomas."}};
  ASSERT_EQ(add_made_up_names(pairs, "Tom", 1), 1);  // the second lacks it in the target, the third has longer words
  ASSERT_EQ(pairs.source.size(), 4u);
  const std::string& source = pairs.source[3];
  const std::string name = source.substr(0, source.find(' '));
  EXPECT_GE(name.size(), 2u);
  EXPECT_EQ(source, name + " y " + name + " leen.");
  EXPECT_EQ(pairs.target[3], name + " and " + name + " read.");
  EXPECT_EQ(pairs.source[0], "Tom y Tom leen.");
}

TEST(MadeUpNames, DependOnTheSeedAlone) {
  const auto names = [](uint64_t seed) {
    TextPairs pairs;
    pairs.source.assign(1000, "Tom");
    pairs.target.assign(1000, "Tom");
    EXPECT_EQ(add_made_up_names(pairs, "Tom", seed), 1000);
    EXPECT_EQ(pairs.source, pairs.target);
    return pairs.source;
  };
  EXPECT_EQ(names(3), names(3));
  const auto drawn = names(4);
  EXPECT_NE(drawn, names(3));
  EXPECT_GT(std::set<std::string>(drawn.begin() + 1000, drawn.end()).size(), 900u);
}

TEST(MadeUpNames, NeedAWord) {
  TextPairs pairs;
  EXPECT_THROW(add_made_up_names(pairs, "", 1), ShapeError);
}

}  // namespace
}  // namespace heed
