#include "base/page_size.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

TEST(PageSize, ThisKernelsIsSupported) { EXPECT_TRUE(check_page_size()); }

TEST(PageSize, LargerPagesAreRefusedByASentenceThatNamesBoth) {
  for (const std::size_t kib : {16U, 64U}) {
    const DoneOrRefusal checked = check_page_size(kib * 1'024);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ENOTSUP);
    const std::string_view sentence = checked.error().message.view();
    EXPECT_NE(sentence.find("pages of " + std::to_string(kib) + " KiB"), std::string_view::npos);
    EXPECT_NE(sentence.find("pages of 4 KiB"), std::string_view::npos) << sentence;
  }
}

}  // namespace
}  // namespace uroce::test
