// Package identity gives the processes of a cluster identities, and verifies them.
//
// A cluster has one certificate authority, made by CreateAuthority. It issues one credentials
// folder per process; the certificate in it carries an Identity as the URI
// weir://<cluster>/<role>/<name>. Both ends of each connection verify the other's chain, validity
// dates, cluster and role, over TLS 1.3 only. Host names are not verified: processes move between
// machines, but keep their role and cluster id.
//
// A credentials folder holds
//
//	ca.crt      the authority's certificate, the only root that is trusted; two while the
//	            authority is being replaced
//	tls.crt     the process's certificate
//	tls.key     its private key, readable by the owner only
//	gossip.key  replicas only: the 32-byte key that encrypts gossip; while it is being
//	            replaced, followed by the other one, which decrypts too
//	vault.key   replicas only: the 32-byte key that seals secrets; see GiveVaultKey
//
// The authority's own folder holds ca.crt, ca.key, gossip.key and vault.key. It is needed
// only to issue certificates, so it can be kept off-line. While a rotation replaces the authority,
// the next one is in a folder within; see Phase.
package identity
