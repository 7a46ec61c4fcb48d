#include "server/options.hpp"

#include <gtest/gtest.h>

namespace galgo::server {
namespace {

using config::Environment;
using config::find_variable;

TEST(DefaultRootCredentials, AreForWhatIsNotSet) {
    Environment nothing;
    apply_default_root_credentials(nothing);
    EXPECT_EQ(find_variable(nothing, "IGGY_ROOT_USERNAME"), "iggy");
    EXPECT_EQ(find_variable(nothing, "IGGY_ROOT_PASSWORD"), "iggy");

    Environment both{{"IGGY_ROOT_USERNAME", "admin"}, {"IGGY_ROOT_PASSWORD", "secret"}};
    const Environment as_it_was = both;
    apply_default_root_credentials(both);
    EXPECT_EQ(both, as_it_was);
}

// As a compose file has it: `IGGY_ROOT_PASSWORD=${PASSWORD}` without a PASSWORD.
TEST(DefaultRootCredentials, AnEmptyVariableIsNotSet) {
    Environment environment{{"IGGY_ROOT_PASSWORD", ""}, {"PATH", "/bin"}};
    apply_default_root_credentials(environment);
    EXPECT_EQ(find_variable(environment, "IGGY_ROOT_USERNAME"), "iggy");
    EXPECT_EQ(find_variable(environment, "IGGY_ROOT_PASSWORD"), "iggy");
    EXPECT_EQ(environment.size(), 3U);
}

}  // namespace
}  // namespace galgo::server
