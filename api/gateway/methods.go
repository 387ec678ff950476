package gateway

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// kind says what a method does.
type kind uint8

const (
	// reads change nothing.
	reads kind = iota + 1
	// changes change something.
	changes
	// withheld are not for browsers: calls between replicas, files for operators, and commands within jobs.
	withheld
)

// methods says of every method of the API what it does. A method that is not here is refused.
var methods = map[string]kind{
	apipbconnect.OperationServiceStartProcedure:          changes,
	apipbconnect.OperationServiceRetryProcedure:          changes,
	apipbconnect.OperationServiceListProcedure:           reads,
	apipbconnect.OperationServiceGetProcedure:            reads,
	apipbconnect.OperationServiceNamesProcedure:          reads,
	apipbconnect.OperationServiceWaitProcedure:           reads,
	apipbconnect.OperationServiceWatchProcedure:          reads,
	apipbconnect.OperationServiceAbortProcedure:          changes,
	apipbconnect.OperationServiceSuspendProcedure:        changes,
	apipbconnect.OperationServiceResumeProcedure:         changes,
	apipbconnect.OperationServiceCompleteProcedure:       changes,
	apipbconnect.OperationServiceUpdateProcedure:         changes,
	apipbconnect.OperationServiceEventsProcedure:         reads,
	apipbconnect.OperationServiceInstancesProcedure:      reads,
	apipbconnect.OperationServiceWatchInstancesProcedure: reads,
	apipbconnect.OperationServiceServicesProcedure:       reads,
	apipbconnect.OperationServiceStatisticsProcedure:     reads,

	apipbconnect.JobServiceListProcedure:       reads,
	apipbconnect.JobServiceGetProcedure:        reads,
	apipbconnect.JobServiceOutputProcedure:     reads,
	apipbconnect.JobServiceFileProcedure:       reads,
	apipbconnect.JobServiceExecProcedure:       withheld,
	apipbconnect.JobServiceExecIOProcedure:     withheld,
	apipbconnect.JobServiceStatisticsProcedure: reads,
	apipbconnect.JobServiceAbortProcedure:      changes,
	apipbconnect.JobServiceInterruptProcedure:  changes,

	apipbconnect.MemoryServiceProfilesProcedure: reads,
	apipbconnect.MemoryServiceForgetProcedure:   changes,
	apipbconnect.PoolServiceListProcedure:       reads,
	apipbconnect.PoolServiceGetProcedure:        reads,
	apipbconnect.PoolServiceHistoryProcedure:    reads,
	apipbconnect.PoolServiceLedgerProcedure:     reads,
	apipbconnect.PoolServiceEditProcedure:       changes,
	apipbconnect.TreeServiceListProcedure:       reads,
	apipbconnect.TreeServiceGetProcedure:        reads,
	apipbconnect.TreeServiceWhatIfProcedure:     reads,
	apipbconnect.TreeServiceCreateProcedure:     changes,
	apipbconnect.TreeServiceSetProcedure:        changes,
	apipbconnect.TreeServiceRemoveProcedure:     changes,
	apipbconnect.TreeServiceSetDefaultProcedure: changes,
	apipbconnect.AttributeServiceGetProcedure:   reads,
	apipbconnect.NodeServiceListProcedure:       reads,
	apipbconnect.NodeServiceGetProcedure:        reads,
	apipbconnect.NodeServiceDrainProcedure:      changes,
	apipbconnect.NodeServiceUndrainProcedure:    changes,
	apipbconnect.NodeServiceRemoveProcedure:     changes,
	apipbconnect.NodeServiceGrantsProcedure:     reads,
	apipbconnect.NodeServiceEditGrantProcedure:  changes,

	apipbconnect.ClusterServiceMembersProcedure:       reads,
	apipbconnect.ClusterServiceStatusProcedure:        reads,
	apipbconnect.ClusterServiceTransferProcedure:      changes,
	apipbconnect.ClusterServiceAddProcedure:           changes,
	apipbconnect.ClusterServiceRemoveProcedure:        changes,
	apipbconnect.ClusterServicePromoteProcedure:       changes,
	apipbconnect.ClusterServiceDemoteProcedure:        changes,
	apipbconnect.ClusterServiceBackupProcedure:        withheld,
	apipbconnect.ClusterServiceJoinProcedure:          withheld,
	apipbconnect.ClusterServiceUpgradeStatusProcedure: reads,
	apipbconnect.ClusterServiceFinishUpgradeProcedure: withheld,

	apipbconnect.AccessServiceWhoAmIProcedure:       reads,
	apipbconnect.AccessServiceMayIProcedure:         reads,
	apipbconnect.AccessServiceGroupsProcedure:       reads,
	apipbconnect.AccessServiceEditGroupProcedure:    changes,
	apipbconnect.AccessServiceAccountsProcedure:     reads,
	apipbconnect.AccessServiceEditAccountsProcedure: changes,
	apipbconnect.AccessServiceRevocationsProcedure:  reads,
	apipbconnect.AccessServiceRevokeProcedure:       changes,
	apipbconnect.AccessServiceStoresProcedure:       reads,
	apipbconnect.AccessServiceEditStoreProcedure:    changes,
	apipbconnect.EventServiceReadProcedure:          reads,
	apipbconnect.AuditServiceReadProcedure:          reads,
	apipbconnect.ExplainServiceExplainProcedure:     reads,
}

// longer says which calls replicas need more time for than for others: they ask a node, or each other.
var longer = map[string]time.Duration{
	apipbconnect.JobServiceOutputProcedure:     2 * time.Second,
	apipbconnect.JobServiceFileProcedure:       2 * time.Second,
	apipbconnect.ClusterServiceStatusProcedure: time.Second,
}

// streams says of every method of the API whether its answer is a stream.
var streams = func() map[string]bool {
	all := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage(apipb.File_apipb_api_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				all["/"+string(service.FullName())+"/"+string(method.Name())] = method.IsStreamingServer()
			}
		}
		return true
	})
	return all
}()

// The bounds of requests, in bytes. Replicas bound each method more closely.
const (
	maxRead   = 64 << 10
	maxChange = 4 << 20
)

// waits are the calls with one answer that may last as long as an operation.
var waits = map[string]bool{apipbconnect.OperationServiceWaitProcedure: true}
