// Package resource counts what jobs need and nodes have.
//
// Amounts are whole numbers and add up exactly; every account of the scheduler
// is kept in them. A Vector is a share of the cluster, one floating point number
// per resource, and exists for comparisons between pools and operations only.
// Shares are compared with the tolerances named here, never with a bare ==.
//
// The rules are F.1: order of resources, rounding, tolerances and the dominant
// resource. The package is pure.
package resource
