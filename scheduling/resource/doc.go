// Package resource represents the resources that jobs need and nodes have.
//
// Amounts are whole numbers and add up exactly; all accounting of the scheduler uses them. A
// Vector is a share of the cluster, one floating point number per resource, and is used only for
// comparisons between pools and operations. Shares are compared with the tolerances defined here,
// never with a bare ==.
//
// The rules are F.1: order of resources, rounding, tolerances and the dominant
// resource. The package is pure.
package resource
