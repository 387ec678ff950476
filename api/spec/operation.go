package spec

import (
	"time"

	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// MaxMutationIDBytes bounds mutation_id.
const MaxMutationIDBytes = 128

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
	Pool              *poolName          `option:"pool" kind:"name of a pool" help:"the pool in which it runs; without one that of the tree for operations that name none"`
	Title             *string            `option:"title" max:"256" unit:"bytes" help:"what people see of it"`
	Alias             *alias             `option:"alias" kind:"text with a * before it" max:"100" unit:"bytes" help:"stands for its id while it is in progress; unique among these"`
	Annotations       *option.Value      `option:"annotations" max:"10KiB" unit:"as JSON" help:"any object, kept with it"`
	TimeLimit         *time.Duration     `option:"time_limit" min:"1s" max:"8784h" rule:"J.5" help:"the operation fails after so long"`
	MaxFailedJobCount *int64             `option:"max_failed_job_count" min:"0" max:"10000" default:"10" unit:"jobs" rule:"J.5" help:"the operation fails with so many failed jobs; 0: with the first"`
	MutationID        *string            `option:"mutation_id" max:"128" unit:"bytes" help:"a start that is repeated with it answers with the same operation"`
	IsGang            *bool              `option:"is_gang" rule:"F.17.3" help:"its jobs are of use only all at once"`
	PoolTrees         []treeName         `option:"pool_trees" min:"1" max:"100" unit:"trees" help:"the pool trees that it runs in; without them the default tree"`
	PerTree           map[string]*inTree `option:"scheduling_options_per_pool_tree" rule:"F.17.3" help:"what differs in a tree: its pool, and the options of an operation in a tree"`
	NoMemoryProfile   *bool              `option:"no_memory_profile" rule:"J.1" help:"it neither starts from what earlier operations needed, nor leaves what it learns"`
	ProxyDigest       *proxyDigest       `option:"job_proxy_memory_digest" rule:"J.1" help:"what its tasks have in place of their own job_proxy_memory_digest"`

	pooltree.OperationOptions
}

// inTree are the options of an operation in one pool tree.
type inTree struct {
	Pool *poolName `option:"pool" kind:"name of a pool" help:"the pool in which it runs there"`
	pooltree.OperationOptions
}

// VanillaOperation are the options of an operation of type vanilla, which runs tasks.
type VanillaOperation struct {
	Operation
	Tasks map[string]*Task `option:"tasks" min:"1" max:"100" unit:"tasks" rule:"J.5" help:"what its jobs are, by the name of the task"`

	_ option.Elsewhere `option:"mapper" alias:"input_paths,format,data_size_per_job,output_path,max_record_size,max_skipped_records" elsewhere:"only an operation of type: map has it: write that, or leave it out"`
	_ option.Elsewhere `option:"job_count" elsewhere:"it stands beside each task: tasks.NAME.job_count; or is type: map meant?"`
}

// MapOperation are the options of an operation of type map, which reads an input.
type MapOperation struct {
	Operation
	Mapper *Mapper `option:"mapper" required:"what is to run? Write an object with a command and its limits" rule:"J.6" help:"the task whose jobs read the input"`
	Input

	_ option.Elsewhere `option:"tasks" elsewhere:"an operation of type: map has one task, the mapper: write it under that name"`
}

// Input are the options of the input and the output of an operation of type map.
type Input struct {
	InputPaths        []inputPath `option:"input_paths" short:"*" min:"1" max:"1000" unit:"paths" required:"what is to be read? Write files, globs, folders or s3://bucket/key" help:"files, globs, folders with all below them, s3://bucket/key, in this order"`
	Format            *string     `option:"format" values:"lines,json,bytes" default:"lines" help:"lines: records are lines; json: lines that are one value each; bytes: no records, cut anywhere"`
	OutputPath        *place      `option:"output_path" kind:"path or s3:// URL" max:"4095" unit:"bytes" required:"where is what the jobs write to be?" help:"one file, or with a slash at its end a folder with a file for each job"`
	DataSizePerJob    *int64      `option:"data_size_per_job" kind:"size" min:"1" max:"64TiB" help:"how much a job reads; 256MiB without job_count"`
	JobCount          *int64      `option:"job_count" min:"1" max:"100000" unit:"jobs" help:"into how many jobs the input is cut, in place of data_size_per_job"`
	MaxRecordSize     *int64      `option:"max_record_size" proto:"max_record_bytes" kind:"size" min:"1" max:"1GiB" default:"16MiB" help:"a longer record fails the operation"`
	MaxSkippedRecords *int64      `option:"max_skipped_records" min:"0" max:"1000000" default:"0" unit:"records" help:"so many records that no job survives are left out; the next one fails the operation"`
}

// defaultDataSizePerJob is how many bytes a job reads if neither data_size_per_job nor
// job_count is set.
const defaultDataSizePerJob = 256 << 20

var _ = option.Declare(VanillaOperation{}, MapOperation{})
