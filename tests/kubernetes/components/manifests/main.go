// JSON schemas for kubeconform, one file a kind, from sources of a Kubernetes version and from definitions of resources.
// As strict as an API server with `--validate=strict`: an unknown key is refused, a defaulted key may be left out.
//
//	manifest-schemas FOLDER FILE…
//
// A file is the API server's `swagger.json`, or YAML whose CustomResourceDefinitions are taken.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

type object = map[string]any

const prefix = "#/definitions/"

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: manifest-schemas FOLDER FILE…"))
	}
	for _, path := range os.Args[2:] {
		if err := convert(os.Args[1], path); err != nil {
			fail(fmt.Errorf("%s: %w", path, err))
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func convert(folder, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.HasSuffix(path, ".json") {
		var api struct{ Definitions map[string]object }
		if err := json.Unmarshal(text, &api); err != nil {
			return err
		}
		return writeKinds(folder, api.Definitions)
	}
	for _, document := range strings.Split("\n"+string(text), "\n---") {
		var definition struct {
			Kind string
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema object }
				}
			}
		}
		// The rest of the line of `---` may be a comment, and other kinds have a spec of another shape.
		if !strings.Contains(document, "kind: CustomResourceDefinition") {
			continue
		}
		if err := yaml.Unmarshal([]byte(document), &definition); err != nil {
			return err
		}
		if definition.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, version := range definition.Spec.Versions {
			schema := version.Schema.OpenAPIV3Schema
			addTypeKeys(schema)
			tighten(schema)
			if err := write(folder, definition.Spec.Group, version.Name, definition.Spec.Names.Kind, schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// Writes each kind of the API server with the definitions that it reaches.
func writeKinds(folder string, definitions map[string]object) error {
	for name, definition := range definitions {
		switch name {
		// The specification calls both a string, and says in words that numbers are taken too.
		case "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity":
			delete(definition, "type")
			definition["type"] = []any{"string", "number"}
		}
		tighten(definition)
	}
	for name, definition := range definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		// Options of calls belong to every group.
		if len(kinds) != 1 {
			continue
		}
		reached := map[string]object{}
		reach(object{"$ref": prefix + name}, definitions, reached)
		kind := kinds[0].(object)
		schema := object{"$ref": prefix + name, "definitions": reached}
		if err := write(folder, kind["group"].(string), kind["version"].(string), kind["kind"].(string), schema); err != nil {
			return err
		}
	}
	return nil
}

func reach(value any, definitions, reached map[string]object) {
	switch value := value.(type) {
	case object:
		if reference, ok := value["$ref"].(string); ok {
			name := strings.TrimPrefix(reference, prefix)
			if _, known := reached[name]; !known {
				reached[name] = definitions[name]
				reach(definitions[name], definitions, reached)
			}
		}
		for _, inner := range value {
			reach(inner, definitions, reached)
		}
	case []any:
		for _, inner := range value {
			reach(inner, definitions, reached)
		}
	}
}

// kubeconform names the group of core kinds by their version.
func write(folder, group, version, kind string, schema object) error {
	if group == "" {
		group = version
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s_%s_%s.json", group, version, strings.ToLower(kind))), text, 0o644)
}

// Every resource has these keys, whether or not its definition lists them.
func addTypeKeys(schema object) {
	properties, ok := schema["properties"].(object)
	if !ok {
		properties = object{}
		schema["properties"] = properties
	}
	for key, kind := range map[string]string{"apiVersion": "string", "kind": "string", "metadata": "object"} {
		if _, listed := properties[key]; !listed {
			properties[key] = object{"type": kind}
		}
	}
}

// Turns a schema of OpenAPI, in place, into one of JSON Schema that refuses unknown keys.
func tighten(schema object) {
	if kind, ok := schema["type"].(string); ok && schema["nullable"] == true {
		schema["type"] = []any{kind, "null"}
		if choices, ok := schema["enum"].([]any); ok {
			schema["enum"] = append(choices, nil)
		}
	}
	// Of draft 4, in which they say how `minimum` is meant.
	for _, key := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if _, flag := schema[key].(bool); flag {
			delete(schema, key)
		}
	}
	if schema["x-kubernetes-embedded-resource"] == true {
		addTypeKeys(schema)
	}
	if properties, ok := schema["properties"].(object); ok {
		dropDefaulted(schema, properties)
		if _, said := schema["additionalProperties"]; !said && schema["x-kubernetes-preserve-unknown-fields"] != true {
			schema["additionalProperties"] = false
		}
		for _, property := range properties {
			if property, ok := property.(object); ok {
				tighten(property)
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(object); ok {
			tighten(inner)
		}
	}
}

func dropDefaulted(schema, properties object) {
	required, ok := schema["required"].([]any)
	if !ok {
		return
	}
	schema["required"] = slices.DeleteFunc(required, func(key any) bool {
		property, ok := properties[key.(string)].(object)
		return ok && property["default"] != nil
	})
}
