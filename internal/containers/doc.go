// Package containers has only tests: the coordinator and the banks end to end on PostgreSQL and NATS as their images
// bring them, configured as in the cluster of docker-compose.yml, and restarted under them.
//
// All other tests of the product start servers of their own; these need a Docker engine. "make test-containers" runs
// them. POSTGRES_IMAGE and NATS_IMAGE name the images.
//
// It is a module of its own, so that the libraries that speak to Docker, half a hundred modules, are dependencies
// of nobody who uses the product.
package containers
