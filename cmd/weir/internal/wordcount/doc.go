// Package wordcount counts the words of a folder's files with the jobs of a cluster, kills the
// cluster's leader when half of the jobs have completed, and compares every file's count with
// one made without the cluster.
//
// Each job starts two processes for each of its files: enough work for jobs to be running when
// the leader dies. The last job can be made to wait until the leader is killed, so that the
// operation cannot end before.
package wordcount
