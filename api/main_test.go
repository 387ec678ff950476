package api

import (
	"testing"

	"weir/cluster/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
