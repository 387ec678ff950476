package spec

import (
	"time"

	"weir/messages/bounds"
	"weir/scheduling/access"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// MaxMutationIDBytes bounds mutation_id.
const MaxMutationIDBytes = bounds.MutationID

// MapperTask is the name of the one task of an operation of type map.
const MapperTask = "mapper"

// The formats of the input of an operation of type map.
const (
	// FormatLines means that records are lines of text.
	FormatLines = "lines"
	// FormatJSON means that records are lines, each one JSON value.
	FormatJSON = "json"
	// FormatBytes means that there are no records; the input may be cut anywhere.
	FormatBytes = "bytes"
)

// Operation are the options of an operation of any type.
type Operation struct {
	Type              *string            `option:"type" values:"vanilla,map" default:"vanilla" rule:"J.4" help:"vanilla: jobs of tasks; map: jobs that each read a part of the input"`
	Pool              *poolName          `option:"pool" kind:"name of a pool" help:"the pool in which it runs (default: the tree's pool for operations that name none)"`
	Title             *string            `option:"title" max:"256" unit:"bytes" help:"title that is shown to people"`
	Alias             *alias             `option:"alias" kind:"text with a * before it" max:"100" unit:"bytes" help:"name to use in place of the operation's id while it is in progress; unique among operations in progress"`
	Annotations       *option.Value      `option:"annotations" alias:"labels" max:"10KiB" unit:"as JSON" help:"any object, stored with the operation; also written labels. Lists select operations by the entries that are short texts, numbers, true or false"`
	TimeLimit         *time.Duration     `option:"time_limit" min:"1s" max:"8784h" rule:"J.5" help:"the operation fails if it takes longer"`
	MaxFailedJobCount *int64             `option:"max_failed_job_count" min:"0" max:"10000" default:"10" unit:"jobs" rule:"J.5" help:"number of failed jobs at which the operation fails; 0: at the first"`
	MutationID        *string            `option:"mutation_id" max:"128" unit:"bytes" help:"a start repeated with the same id returns the same operation"`
	IsGang            *bool              `option:"is_gang" rule:"F.17.3" help:"its jobs are useful only if all of them run at the same time"`
	PoolTrees         []treeName         `option:"pool_trees" min:"1" max:"100" unit:"trees" help:"the pool trees in which it runs (default: the default tree)"`
	PerTree           map[string]*inTree `option:"scheduling_options_per_pool_tree" rule:"F.17.3" help:"overrides for single pool trees: the pool, and any scheduling option of the operation"`
	NoMemoryProfile   *bool              `option:"no_memory_profile" rule:"J.1" help:"it neither uses a memory profile of earlier operations, nor saves one"`
	ProxyDigest       *proxyDigest       `option:"job_proxy_memory_digest" rule:"J.1" help:"default for tasks without a job_proxy_memory_digest of their own"`

	ACL *rights `option:"acl" rule:"T1" help:"who may do what with this operation, beside its owner and those to whom its pools give rights"`

	Vault *secrets `option:"secure_vault" kind:"texts by name" max:"64" unit:"secrets, 64 KiB together" rule:"T3" help:"secrets that its jobs find as WEIR_SECURE_VAULT_NAME in their environment; kept encrypted, shown as (hidden), removed when the operation ends"`

	pooltree.OperationOptions
}

// rights are rights on an operation, as user:NAME, group:NAME or * for everyone.
type rights struct {
	Read   []access.Subject `option:"read" max:"256" help:"who may see its specification, output, statistics and events: user:NAME, group:NAME or * for everyone"`
	Manage []access.Subject `option:"manage" max:"256" help:"who may abort, suspend, resume, complete and update it, and interrupt and abort its jobs"`
}

// inTree are the options of an operation in one pool tree.
type inTree struct {
	Pool *poolName `option:"pool" kind:"name of a pool" help:"the pool in which it runs in this tree"`
	pooltree.OperationOptions
}

// VanillaOperation are the options of an operation of type vanilla, which runs tasks.
type VanillaOperation struct {
	Operation
	Tasks map[string]*Task `option:"tasks" min:"1" max:"100" unit:"tasks" rule:"J.5" help:"the tasks, by name"`

	_ option.Elsewhere `option:"mapper" alias:"input_paths,format,data_size_per_job,output_path,max_record_size,max_skipped_records" elsewhere:"only an operation of type: map has it: set type: map, or leave it out"`
	_ option.Elsewhere `option:"job_count" elsewhere:"it belongs to a task: write tasks.NAME.job_count, or set type: map"`
}

// MapOperation are the options of an operation of type map, which reads an input.
type MapOperation struct {
	Operation
	Mapper *Mapper `option:"mapper" required:"write an object with a command and its limits" rule:"J.6" help:"the task whose jobs read the input"`
	Input

	_ option.Elsewhere `option:"tasks" elsewhere:"an operation of type: map has one task, the mapper: write it under mapper"`
}

// Input are the options of the input and the output of an operation of type map.
type Input struct {
	InputPaths        []inputPath `option:"input_paths" short:"*" min:"1" max:"1000" unit:"paths" required:"write files, globs, folders or s3://bucket/key" help:"files, globs, folders with all below them, s3://bucket/key; read in the given order"`
	Format            *string     `option:"format" values:"lines,json,bytes" default:"lines" help:"lines: each record is a line; json: each record is a line with one JSON value; bytes: no records, the input is cut anywhere"`
	OutputPath        *place      `option:"output_path" kind:"path or s3:// URL" max:"4095" unit:"bytes" required:"write the path or s3:// URL of the output" help:"one file; if it ends with a slash, a folder with one file per job"`
	DataSizePerJob    *int64      `option:"data_size_per_job" kind:"size" min:"1" max:"64TiB" help:"how much input each job reads (default: 256MiB, unless job_count is set)"`
	JobCount          *int64      `option:"job_count" min:"1" max:"100000" unit:"jobs" help:"number of jobs among which the input is divided, in place of data_size_per_job"`
	MaxRecordSize     *int64      `option:"max_record_size" proto:"max_record_bytes" kind:"size" min:"1" max:"1GiB" default:"16MiB" help:"size limit of a record; a longer one fails the operation"`
	MaxSkippedRecords *int64      `option:"max_skipped_records" min:"0" max:"1000000" default:"0" unit:"records" help:"maximum number of records that are skipped because every job fails on them; the next one fails the operation"`
}

// defaultDataSizePerJob is how many bytes a job reads if neither data_size_per_job nor
// job_count is set.
const defaultDataSizePerJob = 256 << 20

var _ = option.Declare(VanillaOperation{}, MapOperation{})
