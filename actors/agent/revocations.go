package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/raftstore/recordlog"
)

// Revocations are the certificates that the cluster no longer accepts, as a leader last told. They
// outlive the agent's process in a file of its state folder. Calls may be concurrent, but for Save.
type Revocations struct {
	path string
	// told is what counts; saved is the version in the file.
	told  atomic.Pointer[actorpb.Revocations]
	saved atomic.Pointer[string]
}

// OpenRevocations reads the revocations in an agent's state folder; a folder without the file has
// none. It fails with ErrDamaged if the file is not as it was written.
func OpenRevocations(stateDir string) (*Revocations, error) {
	r := &Revocations{path: filepath.Join(stateDir, "revocations.json")}
	kept := actorpb.NewRevocations(nil)
	data, err := os.ReadFile(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read kept revocations: %w; make the file readable for the agent, so that it does not trust what the cluster no longer accepts", err)
	default:
		kept.Reset()
		if err = protojson.Unmarshal(data, kept); err == nil && actorpb.VersionOf(kept.GetList()) != kept.GetVersion() {
			err = errors.New("its version is not that of its list")
		}
		if err != nil {
			return nil, fmt.Errorf("read kept revocations: %s %w: %w; "+
				"look with weir tls revoke --list that no replica's certificate is revoked, then remove the file and start the agent: the leader tells it the list again", r.path, ErrDamaged, err)
		}
	}
	r.told.Store(kept)
	r.saved.Store(&kept.Version)
	return r, nil
}

// Version returns the version to tell a leader: that of the file, so that what could not be written
// is told again. It is empty for nil, which keeps none.
func (r *Revocations) Version() string {
	if r == nil {
		return ""
	}
	return *r.saved.Load()
}

// Heed makes what a leader told count at once. Save writes it.
func (r *Revocations) Heed(told *actorpb.Revocations) { r.told.Store(told) }

// Save replaces the file by what counts. After a crash it is the old one or the new one.
func (r *Revocations) Save() error {
	told := r.told.Load()
	data, err := protojson.Marshal(told)
	if err == nil {
		var file *os.File
		if file, err = recordlog.Create(r.path+".new", append(data, '\n')); err == nil {
			err = errors.Join(recordlog.Commit(file, r.path), file.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("write revocations: %w", err)
	}
	r.saved.Store(&told.Version)
	return nil
}

// Revoked returns the revocation of a certificate; nil if it is accepted.
func (r *Revocations) Revoked(serial, role, name string, issued time.Time) *statepb.Revocation {
	for _, one := range r.told.Load().GetList() {
		if one.GetSerial() != "" {
			if one.GetSerial() == serial {
				return one
			}
			continue
		}
		if one.GetRole() == role && one.GetName() == name && issued.Before(one.GetIssuedBefore().AsTime()) {
			return one
		}
	}
	return nil
}
