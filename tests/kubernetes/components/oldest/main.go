// One binary holds the API server and the controller manager of the oldest Kubernetes that vmcp supports.
// The name it is called by (a symbolic link) says which program it is.
package main

import (
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if filepath.Base(os.Args[0]) == "kube-controller-manager" {
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	}
	os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
}
