// Package spec turns the spec of an operation, in YAML or JSON, into the checked record of the
// operation.
//
// It is strict. An unknown option, a value of the wrong type and a size out of bounds are
// faults. A fault has the path and the place of the value and says what is allowed there. All
// faults of a spec are reported at once.
//
//	type: vanilla              # or map
//	pool: ads
//	tasks:
//	  sort:
//	    job_count: 100
//	    command: [sort, --unique, input]
//
// The options are the fields of VanillaOperation and MapOperation, of Task, Job and Mapper
// below these, and of pooltree.OperationOptions. To add an option, add a field there and to the
// message that stores it. Checks across options are in check.go and check_task.go.
//
// The package is pure: equal input gives equal output.
package spec
