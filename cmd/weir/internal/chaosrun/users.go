package chaosrun

import (
	"maps"
	"slices"
	"time"

	"weir/api/client"
	"weir/chaos"
	"weir/cmd/weir/internal/devcluster"
)

// users connects users of a run to its cluster. It implements chaos.Users.
type users struct {
	reach *devcluster.Reach
	// clients are the clients to close, and configs the connections of users.
	clients []*client.Client
	configs map[string]client.Config
}

// config returns the connection of a user, who gets a certificate with the first one.
func (u *users) config(user string) (client.Config, error) {
	if config, known := u.configs[user]; known {
		return config, nil
	}
	settings, err := u.reach.Settings, error(nil)
	if user != "" {
		settings, err = u.reach.As(user)
	}
	if err != nil {
		return client.Config{}, err
	}
	config, err := settings.Config()
	if err != nil {
		return client.Config{}, err
	}
	if u.configs == nil {
		u.configs = make(map[string]client.Config)
	}
	u.configs[user] = config
	return config, nil
}

// Client implements chaos.Users. The client has short tries: a dead or frozen replica delays it
// little.
func (u *users) Client(user string) (*client.Client, error) {
	config, err := u.config(user)
	if err != nil {
		return nil, err
	}
	config.Try, config.MaxTry, config.Deadline = 300*time.Millisecond, 2*time.Second, 4*time.Second
	c, err := client.New(config)
	if err == nil {
		u.clients = append(u.clients, c)
	}
	return c, err
}

// Gates implements chaos.Users.
func (u *users) Gates(user string) ([]chaos.Gate, error) {
	config, err := u.config(user)
	if err != nil {
		return nil, err
	}
	replicas, err := u.reach.Replicas()
	if err != nil {
		return nil, err
	}
	var gates []chaos.Gate
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		gates = append(gates, chaos.Gate{Replica: name, HTTP: config.HTTP, URL: config.URL(replicas[name])})
	}
	return gates, nil
}

// close closes the connections.
func (u *users) close() {
	for _, c := range u.clients {
		c.Close()
	}
	for _, config := range u.configs {
		if idle, ok := config.HTTP.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}
}
