// Package spec reads what people write about an operation: YAML or JSON in, the
// checked record of the operation out.
//
// It is strict. A field that does not exist, a value of the wrong type, a size
// that cannot be meant: each is a fault with the path and place where it stands
// and what may stand there instead. All faults of a spec are told at once.
//
//	type: vanilla              # or map
//	pool: ads                  # default: default
//	weight: 2                  # share relative to siblings, default 1
//	title: nightly sort
//	alias: "*nightly"          # unique among operations in progress
//	annotations: {team: ads}   # any object, at most 10 KiB
//	time_limit: 2h
//	max_failed_job_count: 10
//	mutation_id: sort-2026-01  # a retry with it answers with the same operation
//	tasks:
//	  sort:
//	    job_count: 100
//	    command: [sort, --unique, input]
//	    environment: {LANG: C}
//	    cpu_limit: 0.5         # cores, default 1
//	    memory_limit: 2GB      # default 512MiB
//	    gpu_limit: 0
//	    network_limit: 0
//	    job_time_limit: 10m
//	    max_failed_job_count: 5
//	    max_attempts: 3        # then a job that fails is given up; default: not before the operation fails
//	    cookies: [3, 7-9]      # which of its jobs run; default: all
//	    restart_completed_jobs: false
//
// An operation of type map has an input, an output and one task without job_count
// instead of tasks:
//
//	type: map
//	input_paths: [/data/2026/*.json, s3://logs/2026/]
//	format: json               # or lines, bytes
//	output_path: /data/clean.json
//	mapper:
//	  command: [./clean]
//	  file_paths: [{source: /opt/tools/clean, executable: true}]
//
// A command is a list: the program and its arguments. With shell: true beside
// it, it is a line for /bin/sh -c. In names of options - and _ are the same.
//
// The package is pure: equal input gives equal output.
package spec
