package statepb

// Probed returns the tasks whose instances are not ready before they are found, or say, to be.
func (x *OperationSpec) Probed() map[string]bool {
	probed := map[string]bool{}
	for _, task := range x.GetTasks() {
		if task.GetReadiness() != nil {
			probed[task.GetName()] = true
		}
	}
	return probed
}
