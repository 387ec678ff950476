// Package leaktest finds goroutines that the tests of a package leave behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have that are about to end: on a machine that is busy
// with other tests each needs a processor once more.
const patience = time.Minute

// Main runs the tests of a package from its TestMain, ends the process, and fails it when
// goroutines are left that do not end.
func Main(m *testing.M) { goleak.VerifyTestMain(patient{m}) }

// patient waits after the tests for what is about to end.
type patient struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (p patient) Run() int {
	code := p.tests.Run()
	for end := time.Now().Add(patience); goleak.Find() != nil && time.Now().Before(end); {
		continue
	}
	return code
}
