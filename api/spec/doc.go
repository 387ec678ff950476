// Package spec reads what people write about an operation: YAML or JSON in, the checked
// record of the operation out.
//
// It is strict. An option that does not exist, a value of the wrong type, a size that cannot
// be meant: each is a fault with the path and place where it stands and what may stand there
// instead. All faults of a spec are told at once.
//
//	type: vanilla              # or map
//	pool: ads
//	tasks:
//	  sort:
//	    job_count: 100
//	    command: [sort, --unique, input]
//
// The options are the fields of VanillaOperation and MapOperation, of Task, Job and Mapper
// below these, and of pooltree.OperationOptions. To add one is to add a field there and to the
// message that keeps it; what options are to each other is in check.go and check_task.go.
//
// The package is pure: equal input gives equal output.
package spec
