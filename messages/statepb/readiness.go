package statepb

import "slices"

// Probed returns the tasks whose instances are not ready until a probe or their own report says so.
func (x *OperationSpec) Probed() map[string]bool {
	probed := map[string]bool{}
	for _, task := range x.GetTasks() {
		if task.GetReadiness() != nil {
			probed[task.GetName()] = true
		}
	}
	return probed
}

// HandsOver reports whether the operation has tasks whose instances may be held back when they are
// ordered to leave, until others can replace them.
func (x *OperationSpec) HandsOver() bool {
	return slices.ContainsFunc(x.GetTasks(), func(t *TaskSpec) bool { return t.GetMaxSurge() > 0 || t.GetMinAvailable() > 0 })
}
