package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"weir/scheduling"
)

// ErrDamaged is returned for a file that does not hold what was written to it.
var ErrDamaged = errors.New("is damaged")

// folder is where an agent keeps what must survive it.
type folder struct{ path string }

func openFolder(path string) (folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return folder{}, fmt.Errorf("open state folder: %w", err)
	}
	return folder{path: path}, nil
}

func (f folder) tokenFile() string    { return filepath.Join(f.path, "token") }
func (f folder) replicasFile() string { return filepath.Join(f.path, "replicas.json") }

// tokenFormat is the whole of the token's file: the token, and a checksum of the
// text before it.
const tokenFormat = "weir agent token 1\nterm %d\nindex %d\n"

func tokenText(token scheduling.Token) string {
	text := fmt.Sprintf(tokenFormat, token.Term, token.Index)
	return text + fmt.Sprintf("crc32 %08x\n", crc32.ChecksumIEEE([]byte(text)))
}

// readToken returns the highest token seen; none for a new folder.
func (f folder) readToken() (scheduling.Token, error) {
	data, err := os.ReadFile(f.tokenFile())
	if errors.Is(err, fs.ErrNotExist) {
		return scheduling.Token{}, nil
	}
	if err != nil {
		return scheduling.Token{}, fmt.Errorf("read token: %w", err)
	}
	var token scheduling.Token
	// What does not scan, or has something else beside it, differs when written again.
	_, err = fmt.Sscanf(string(data), tokenFormat, &token.Term, &token.Index)
	if err != nil || string(data) != tokenText(token) {
		return scheduling.Token{}, fmt.Errorf("read token: %s %w: restore it, or, once no former leader can be alive, "+
			"remove it: the agent then forgets which leaders it has seen", f.tokenFile(), ErrDamaged)
	}
	return token, nil
}

// writeToken puts a token on disk, whole or not at all.
func (f folder) writeToken(token scheduling.Token) error {
	if err := f.write(f.tokenFile(), []byte(tokenText(token))); err != nil {
		return fmt.Errorf("write token: %w", err)
	}
	return nil
}

// readReplicas returns the replicas that were known; none for a new folder.
func (f folder) readReplicas() ([]Replica, error) {
	data, err := os.ReadFile(f.replicasFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read known replicas: %w", err)
	}
	var replicas []Replica
	if err := json.Unmarshal(data, &replicas); err != nil {
		return nil, fmt.Errorf("read known replicas: %s %w: %w", f.replicasFile(), ErrDamaged, err)
	}
	return replicas, nil
}

func (f folder) writeReplicas(replicas []Replica) error {
	data, err := json.MarshalIndent(replicas, "", "  ")
	if err == nil {
		err = f.write(f.replicasFile(), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write known replicas: %w", err)
	}
	return nil
}

// write replaces a file; afterwards it survives the loss of power.
func (f folder) write(path string, data []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	parent, err := os.Open(f.path)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}
