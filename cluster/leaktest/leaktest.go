// Package leaktest finds goroutines that the tests of a package leave behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the tests: each has to run once more, and
// the machine may be busy with other tests.
const patience = time.Minute

// Main runs the tests of a package from its TestMain and exits. It fails if a goroutine does not
// end.
func Main(m *testing.M) { goleak.VerifyTestMain(patient{m}) }

// patient waits after the tests for goroutines that are about to end.
type patient struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (p patient) Run() int {
	code := p.tests.Run()
	for end := time.Now().Add(patience); goleak.Find() != nil && time.Now().Before(end); {
		continue
	}
	return code
}
