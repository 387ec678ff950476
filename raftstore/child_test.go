package raftstore

// childDir tells the test binary to be a replica of its own.
const childDir = "RAFTSTORE_TEST_CHILD_DIR"

func runChild(string) {}
