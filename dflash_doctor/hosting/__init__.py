"""Heavy work in a child process with a watchdog: a crash, a hang or a leak never takes the report with it."""
