package statepb

// Attributes of the errors of jobs that read and write, by which an agent tells the
// controller what the job proxy has found (docs/map.md).
const (
	// AttributeInputFault is the kind of what is wrong with the input, as the job proxy
	// tells it; AttributeOutputFault is set when the job's output could not be stored.
	AttributeInputFault  = "input_fault"
	AttributeOutputFault = "output_fault"
	// The record that the error is about: its file, where it begins and ends there in
	// bytes, and how it begins. A job that was given no other record has it named too.
	AttributeInputPath    = "input_path"
	AttributeRecordOffset = "record_offset"
	AttributeRecordEnd    = "record_end"
	AttributeRecordHead   = "record_head"
)
