package statepb

import (
	"strconv"
	"strings"
)

// Places replaces the placeholders in the paths of the files of a job of this task.
func (x *TaskSpec) Places(operation string, cookie int32, job string) *strings.Replacer {
	return strings.NewReplacer("{operation_id}", operation, "{task}", x.GetName(), "{cookie}", strconv.Itoa(int(cookie)), "{job_id}", job)
}
