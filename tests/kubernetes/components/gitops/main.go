// The health of an object as Argo CD and Flux see it, by their own libraries.
// Reads the manifest of Argo CD's ConfigMap from the file that is named first, and one object as JSON from standard input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	"github.com/argoproj/gitops-engine/pkg/health"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: gitops-health ARGOCD-CM.yaml < OBJECT.json"))
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	var object unstructured.Unstructured
	// Not by `encoding/json`: numbers of Kubernetes are whole where they can be.
	if err := object.UnmarshalJSON(text); err != nil {
		fail(err)
	}
	argo, err := argoHealth(os.Args[1], &object)
	if err != nil {
		fail(err)
	}
	flux, err := status.Compute(&object)
	if err != nil {
		fail(err)
	}
	verdicts := map[string]verdict{"argo": argo, "flux": {flux.Status.String(), flux.Message}}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		fail(err)
	}
}

// Lets Argo CD load the health checks from its ConfigMap and judge the object by them, as its controller does.
func argoHealth(path string, object *unstructured.Unstructured) (verdict, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return verdict{}, err
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return verdict{}, err
	}
	client := fake.NewClientset(&config)
	overrides, err := settings.NewSettingsManager(context.Background(), client, config.Namespace).GetResourceOverrides()
	if err != nil {
		return verdict{}, err
	}
	found, err := health.GetResourceHealth(object, lua.ResourceHealthOverrides(overrides))
	if err != nil {
		return verdict{}, err
	}
	if found == nil {
		return verdict{}, fmt.Errorf("Argo CD knows no health of %s", object.GetKind())
	}
	return verdict{string(found.Status), found.Message}, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gitops-health:", err)
	os.Exit(1)
}
