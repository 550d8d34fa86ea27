"""scikit-learn takes FewShotClassifier for one of its classifiers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from filmtransfer import FewShotClassifier
from tests.conftest import picture

IMAGES = np.stack([np.asarray(picture(i % 2, i)) for i in range(8)])
LABELS = np.array(["disc", "bars"] * 4)


def quick(**options) -> FewShotClassifier:
    return FewShotClassifier(**({"steps": 0, "image_size": 32, "train_size": 32} | options))


def test_it_is_a_classifier_that_can_be_cloned():
    classifier = quick(head="qda", prior=[0.5, 0.5])
    twin = clone(classifier)
    assert is_classifier(twin)
    assert twin is not classifier
    assert twin.get_params() == classifier.get_params()
    assert pickle.loads(pickle.dumps(classifier)).get_params() == classifier.get_params()


def test_parameters_are_set_by_name():
    assert quick().set_params(head="qda", seed=4).get_params()["seed"] == 4
    with pytest.raises(ValueError, match=r"Invalid parameter 'haed' .* Valid parameters are: \['adapter'"):
        quick().set_params(haed="qda")


def test_the_representation_has_what_differs_from_the_defaults():
    assert repr(FewShotClassifier()) == "FewShotClassifier()"
    assert repr(FewShotClassifier(head="qda", seed=3)) == "FewShotClassifier(head='qda', seed=3)"


def test_scikit_learn_knows_whether_it_is_fitted():
    with pytest.raises(NotFittedError):
        check_is_fitted(quick())
    with pytest.raises(NotFittedError, match="FewShotClassifier instance is not fitted"):
        quick().save("never")
    check_is_fitted(quick().fit(IMAGES, LABELS))


def test_cross_validation_searches_and_pipelines():
    assert cross_val_score(quick(), IMAGES, LABELS, cv=2).shape == (2,)
    search = GridSearchCV(quick(), {"head": ["lda", "protonets"]}, cv=2).fit(IMAGES, LABELS)
    assert search.best_params_["head"] in ("lda", "protonets")
    pipeline = make_pipeline(FunctionTransformer(), quick()).fit(IMAGES, LABELS)
    assert pipeline.predict(IMAGES).tolist() == quick().fit(IMAGES, LABELS).predict(IMAGES).tolist()
    assert "FewShotClassifier" in pipeline._repr_html_()
