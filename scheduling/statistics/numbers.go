package statistics

// byNumber are the statistics that have a number, by it: packed values say the number and
// not the name. Numbers are in logs and on disks: a new statistic is added at the end, and
// one that is measured no more keeps its place.
var byNumber = [...]string{
	DataInputBytes,
	DataInputRows,
	DataOutputBytes,
	DataOutputRows,
	ProxyCPUSystem,
	ProxyCPUUser,
	ProxyCumulativeEstimate,
	ProxyCumulativeMaxMemory,
	ProxyCumulativeReserve,
	ProxyEstimatedMemory,
	ProxyMaxMemory,
	ProxyMemoryReserve,
	ProxyReserveFactor,
	TimeArtifactsDownload,
	TimeExec,
	TimePrepare,
	TimeTotal,
	UserBlockRead,
	UserBlockWritten,
	UserContextSwitches,
	UserCPUSystem,
	UserCPUThrottled,
	UserCPUUser,
	UserCPUWait,
	UserCumulativeMaxMemory,
	UserMemoryIntegral,
	UserCumulativeMemoryLimit,
	UserCumulativeReserve,
	UserCurrentMemory,
	UserDiskLimit,
	UserDiskMaxUsage,
	UserMajorFaults,
	UserMaxMemory,
	UserMaxTmpfsSize,
	UserMemoryLimit,
	UserMemoryReserve,
	UserReserveFactor,
	UserPeakProcesses,
	UserPipesInput,
	UserPipesStderr,
	UserPipesStderrDropped,
	UserPipesStdout,
	UserPipesStdoutDropped,
	UserTmpfsLimit,
	UserTmpfsSize,
}

// numbers has the number of each of them.
var numbers = func() map[string]int {
	m := make(map[string]int, len(byNumber))
	for number, name := range byNumber {
		m[name] = number
	}
	return m
}()
