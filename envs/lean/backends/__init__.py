"""Optional back ends: screens (pre-checks that may only reject), and a second judge. Each is imported when it is chosen."""
