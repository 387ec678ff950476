// Package rolling replaces the programs of a running cluster on this machine, one process after
// another, and measures for how long no write was acknowledged meanwhile.
package rolling
