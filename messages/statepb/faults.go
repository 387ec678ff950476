package statepb

// Attributes of the errors of jobs that read and write, by which an agent reports the findings of
// the job proxy to the controller (docs/map.md).
const (
	// AttributeInputFault is the kind of fault that the job proxy found in the input;
	// AttributeOutputFault is set when the job's output could not be stored.
	AttributeInputFault  = "input_fault"
	AttributeOutputFault = "output_fault"
	// The record that the error is about: its file, the offsets in bytes where it begins and ends,
	// and its first bytes. These attributes are also set if the job was given only one record.
	AttributeInputPath    = "input_path"
	AttributeRecordOffset = "record_offset"
	AttributeRecordEnd    = "record_end"
	AttributeRecordHead   = "record_head"
)
